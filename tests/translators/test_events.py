"""Neutral events: token counts that tell unknown from zero, and values that nobody changes."""

import pytest

from translators.events import Delta, Start, Usage


@pytest.mark.parametrize(
    ("usage", "prompt", "known"),
    [
        (Usage(), 0, False),
        (Usage(uncached=3), 3, True),
        (Usage(uncached=3, cache_read=4, cache_write=5), 12, True),
        (Usage(output=0), 0, True),
        (Usage(cache_read=4), 4, False),
    ],
)
def test_prompt_is_the_sum_of_its_parts(usage, prompt, known):
    """The prompt counts unknown members as zero, and `known` says whether anything was reported (1.7)."""
    assert (prompt, known) == (usage.prompt, usage.known)


@pytest.mark.parametrize("event", [Start("i"), Delta(1, "t"), Usage()])
def test_events_are_values(event):
    """An event cannot be changed by one of its readers."""
    with pytest.raises(AttributeError):
        event.text = "other"
