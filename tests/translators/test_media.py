"""Images between links, data URIs and base64: checked, and never fetched."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translators.conversation import Image
from translators.fault import Refused
from translators.media import IMAGE_TYPES, check_image, data_uri, image_from, image_url, split_data_uri


@given(st.sampled_from(IMAGE_TYPES), st.binary(min_size=1))
def test_an_image_goes_there_and_back(media_type, content):
    """A data URI becomes type and base64 and the same data URI again."""
    uri = data_uri(media_type, base64.b64encode(content).decode())
    image = image_from(uri, "high", "messages.0")
    assert Image(media_type=media_type, data=base64.b64encode(content).decode(), detail="high") == image
    assert uri == image_url(image)


@pytest.mark.promise("S12")
@pytest.mark.parametrize("url", ["https://example.org/a.png", "http://example.org/a.png"])
def test_links_stay_links(url):
    """A link goes on as it is; nothing here opens it."""
    assert url == image_url(image_from(url, None, "a"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://h/a.png",
        "data:image/png,abc",
        "data:;base64,YQ==",
        "data:image/png;base64",
        "YQ==",
    ],
)
def test_other_urls_are_refused(url):
    """What is neither a link nor a base64 data URI names its field."""
    with pytest.raises(Refused) as refused:
        image_from(url, None, "messages.0.content.1")
    assert ("messages.0.content.1", "unsupported_content") == (refused.value.fault.param, refused.value.fault.code)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [("image/bmp", "YQ=="), ("text/plain", "YQ=="), ("image/png", "a"), ("image/png", "%%%%"), ("image/png", "ä"), ("image/png", "")],
)  # fmt: skip
def test_bad_images_are_refused(media_type, data):
    """A type that one of the protocols lacks, broken base64 and empty images are refused."""
    with pytest.raises(Refused) as refused:
        check_image(media_type, data, "m")
    assert "unsupported_content" == refused.value.fault.code


def test_types_are_told_in_lower_case():
    """Media types compare without regard to case."""
    assert ("application/pdf", "YQ==") == split_data_uri("data:Application/PDF;base64,YQ==", "a")
