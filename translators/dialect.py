"""What a dialect is: a record of functions, one value per protocol, no base class.

`translators/__init__` of each dialect folder builds its record; `translators.pair` joins two of them. A new
protocol is one folder with these functions and one line in `translators.dialects`.
"""

from collections.abc import Callable, Sequence
from re import Pattern
from typing import Any, Protocol

import msgspec

from translators.conversation import Controls, Conversation, DialectName
from translators.events import Event, Failed, Stop, Usage
from translators.fault import Fault, refuse
from translators.fold import Answer
from translators.notes import Notes
from translators.sse import Frame
from translators.toolbox import Toolbox
from translators.traits import Traits

__all__ = [
    "MAX_MODEL_CHARS",
    "Closing",
    "Decoder",
    "Dialect",
    "Encoder",
    "Peek",
    "Reply",
    "Seen",
    "Source",
    "Target",
    "Watcher",
]

MAX_MODEL_CHARS = 512
"""Of a model name that a client may send: tables of many kinds are kept by it (S24)."""


class Peek(msgspec.Struct, frozen=True):
    """What routing needs of a request body, read without building a tree; raises Refused for an endless model name."""

    model: str
    stream: bool = False
    session: str | None = None
    """The client's own session id where its body has one (never guessed from content; S31)."""
    user: str | None = None
    """Who asks, as the body says; stands for the session where neither body nor headers name one."""

    def __post_init__(self) -> None:
        if len(self.model) > MAX_MODEL_CHARS:
            raise refuse(f"model: a name has at most {MAX_MODEL_CHARS} characters", param="model")


class Target(msgspec.Struct, frozen=True):
    """The upstream that a request is written for.

    `model` is the upstream's name, `origin` tags opaque state (carrier.py), `default_effort` fills an effort
    that the client left out.
    """

    model: str
    traits: Traits
    origin: str = ""
    strict: bool = False
    default_effort: str | None = None
    max_output_tokens: int | None = None


class Source(msgspec.Struct, frozen=True):
    """What a decoder may know: strictness, the origin that tags opaque state, and where its repairs are noted (I34)."""

    strict: bool = False
    origin: str = ""
    notes: Notes | None = None


class Reply(msgspec.Struct, frozen=True):
    """What an encoder may know of the client's request and of us.

    `alias` is the model name that the client sees in every event (E38); `created` is Unix seconds from the
    gateway's clock, used where the upstream gives none; `seed` makes ids where the upstream gives none
    (24 hex digits). `notes` takes what the client's protocol cannot tell of an answer (I34).
    """

    alias: str
    created: int = 0
    seed: str = ""
    origin: str = ""
    toolbox: Toolbox = Toolbox()
    controls: Controls = Controls()
    include_usage: bool = False
    include_encrypted: bool = True
    echo: dict[str, Any] = {}
    notes: Notes = msgspec.field(default_factory=Notes)


class Decoder(Protocol):
    """Turn one upstream's frames into events. Never raises for upstream data: a violation is a Failed event.

    After a Failed or Finish event every later call returns nothing (I3, I4). `notes` lists repairs.
    """

    notes: Notes

    def push(self, frame: Frame) -> Sequence[Event]:
        """Return the events of one frame."""

    def finish(self) -> Sequence[Event]:
        """Return the events of the stream's end: the pending Finish, or Failed when no terminal was seen (I2)."""


class Encoder(Protocol):
    """Turn sequenced events into one client's bytes: at most one open block, lazy starts already resolved."""

    def push(self, event: Event) -> bytes:
        """Return what the client gets for one event; may be empty.

        Failed gives the whole in-stream error form, whether or not Start came before it.
        """

    def keepalive(self) -> bytes:
        """Return bytes that keep a silent connection alive at this point of the stream (spec/translation.md 1.16)."""


class Closing(msgspec.Struct, frozen=True):
    """The frame that ends a native stream behind its terminal, and the note of having to add it (5.2)."""

    frame: bytes
    field: str
    message: str


class Seen(msgspec.Struct, frozen=True):
    """What a watcher found in one frame of a native stream.

    `replace` is the whole frame that goes out instead (b"" swallows it), None forwards the frame as it came.
    `terminal`: the source has said that the answer is complete; a clean end after it is a success.
    `last`: nothing behind this frame belongs to the answer, and no client gets it (I29).
    """

    usage: Usage | None = None
    stop: Stop | None = None
    terminal: bool = False
    failed: Failed | None = None
    model: str | None = None
    replace: bytes | None = None
    last: bool = False


class Watcher(Protocol):
    """Observe a stream whose two sides speak the same dialect, without decoding what need not be decoded.

    A region of frames that is `quiet` is forwarded as it is; frames of other regions go
    through `look` one by one. `meaningful` finds text, reasoning or tool content (for the stall timers).
    """

    meaningful: Pattern[bytes]
    usual: bytes
    """What nearly all content is spelled with: `meaningful` mostly matches where it is found. b"" saves nothing."""
    closing: Closing | None
    """None where the terminal is the last frame."""

    def quiet(self, region: bytes) -> bool:
        """Tell whether a region of whole frames has no counts, end or error in it; asked for every read."""

    def look(self, frame: Frame) -> Seen:
        """Return what one frame says about usage, the end and errors; raises nothing for upstream data."""

    def failure(self, fault: Fault) -> bytes:
        """Return the error form that ends the stream as it has begun, under its own ids."""


class Dialect(msgspec.Struct, frozen=True):
    """One protocol as functions.

    peek(body) raises Refused for a body that cannot be routed.
    parse(body, notes) -> Conversation; raises Refused (400) naming the field.
    render(conversation, toolbox, target, notes) -> JSON body; raises Refused for REJECT cells.
    decoder(source) / encoder(reply) make the two stream machines.
    read_answer(body, source) -> the events of a whole answer, ending in Finish or Failed, blocks in order.
    answer(folded, reply) -> the JSON body of a whole answer; raises Refused where it cannot be told truthfully.
    envelope(fault, request_id) -> the JSON error body.
    native_request(body, peek, target, notes) -> the body for an upstream of the same dialect: bytes kept save
    the model, foreign carriers and `status: null`; raises Refused.
    watch(reply) -> the observer of a native stream.
    native_failure(fault) -> the in-stream error form of a stream of which only the headers are out.
    native_answer(body, reply) -> the whole answer with the client's alias as its model.
    known: the request's members that parse reads; a server of the same dialect may have more.
    """

    name: DialectName
    peek: Callable[[bytes], Peek]
    parse: Callable[[bytes, Notes], Conversation]
    render: Callable[[Conversation, Toolbox, Target, Notes], bytes]
    decoder: Callable[[Source], Decoder]
    encoder: Callable[[Reply], Encoder]
    read_answer: Callable[[bytes, Source], list[Event]]
    answer: Callable[[Answer, Reply], bytes]
    envelope: Callable[[Fault, str], bytes]
    native_request: Callable[[bytes, Peek, Target, Notes], bytes]
    watch: Callable[[Reply], Watcher]
    native_answer: Callable[[bytes, Reply], bytes]
    native_failure: Callable[[Fault], bytes]
    known: frozenset[str]
