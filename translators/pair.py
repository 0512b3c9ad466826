"""Join two dialects: a client's request to an upstream body, the upstream's bytes to the client's bytes.

`Pair` is the only door to translation that the gateway uses. It never raises for what a client or an
upstream sends: a request gives Prepared or a Fault, a stream ends in its own error form.
"""

from collections.abc import Callable, Iterable

import msgspec

from translators.adjacency import adjacent
from translators.conversation import Conversation
from translators.dialect import Dialect, Peek, Reply, Source, Target
from translators.effort import effort_of, sent_effort, shown
from translators.events import BlockStart, Delta, Event, Failed, Finish, Start, Usage
from translators.fault import Fault, Refused, broken, refuse
from translators.fold import Fold
from translators.messages.count import estimate
from translators.native import NativeStream, NativeWhole
from translators.notes import Notes
from translators.policy import applied, guarded, shaping, with_foreign
from translators.replay import check_resolved
from translators.sequencer import Budget, Sequencer
from translators.sse import COMMENT, MAX_FRAME_BYTES, MAX_FRAMES, Splitter
from translators.tally import Tally
from translators.toolbox import Toolbox, build

__all__ = ["Amend", "Asked", "Pair", "Prepared", "Stream", "TranslatedStream"]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Bytes of one upstream answer."""
MAX_TURNS, MAX_PARTS, MAX_TOOLS = 10_000, 50_000, 2_000

Amend = Callable[[Conversation], Conversation]
"""A pure step between parse and render: replay, shadow, policy."""


class Asked(msgspec.Struct, frozen=True):
    """What a request is translated under: the client's alias, the gateway's clock (Unix s) and id seed.

    `reasoning` is the route's visibility setting; `native` false forces a full translation even where both
    sides speak the same dialect, as the model's traits may too (`translators.policy.shaping`).
    """

    alias: str
    created: int = 0
    seed: str = ""
    reasoning: str = "requested"
    native: bool = True
    clean: Callable[[str], str] = str
    """Masks secrets in an upstream's error text before a client sees it (S02)."""
    count: Callable[[bytes], int] = estimate
    """Counts the tokens of an upstream body, for the context guard."""


class Prepared(msgspec.Struct):
    """An upstream request with all that its answer needs. `conversation` is None on the native path."""

    body: bytes
    stream: bool
    native: bool
    reply: Reply
    source: Source
    notes: Notes
    shown: bool = True
    carried: bool = True
    bare: bool = True
    conversation: Conversation | None = None
    effort: str | None = None
    """The reasoning effort that went upstream, None where that is not known."""
    clean: Callable[[str], str] = str


class Pair:
    """One client dialect over one upstream dialect."""

    def __init__(self, client: Dialect, upstream: Dialect) -> None:
        self.client = client
        self.upstream = upstream

    def request(
        self, body: bytes, peek: Peek, target: Target, asked: Asked, amend: Amend | None = None
    ) -> Prepared | Fault:
        """Return the upstream request for a client's body, or the Fault (4xx) that says why there is none."""
        notes = Notes(strict=target.strict, client=self.client.name)
        try:
            same = asked.native and self.client is self.upstream
            if same and not shaping(target.traits, self.upstream.name):
                prepared = self._native(body, peek, target, asked, notes)
            else:
                prepared = self._translated(body, target, asked, notes, amend)
                if same:
                    prepared.body = with_foreign(prepared.body, body, self.client.known)
            if target.traits.context_guard is not None:
                prepared.body = guarded(prepared.body, target.traits.context_guard, asked.count, notes)
            return prepared
        except Refused as refused:
            return refused.fault

    def stream(self, prepared: Prepared, observe: Callable[[Event], None] | None = None) -> "Stream":
        """Return the machine that turns upstream bytes into what the client gets.

        `observe` is shown every decoder event of a translated answer (for the replay and shadow stores).
        """
        if prepared.native and prepared.stream:
            return NativeStream(self.upstream, prepared.reply, prepared.clean, prepared.source)
        return TranslatedStream(self, prepared, observe)

    def whole(
        self, prepared: Prepared, body: bytes, observe: Callable[[Event], None] | None = None
    ) -> "NativeWhole | TranslatedStream":
        """Return the finished machine for an upstream that answered with one JSON body.

        A client that asked for a stream gets the stream of it, one that did not gets the body (`output`).
        """
        events = self.upstream.read_answer(body, prepared.source)
        if prepared.native and not prepared.stream:
            return NativeWhole(self.upstream, prepared.reply, prepared.clean, body, events, observe)
        machine = TranslatedStream(self, prepared, observe)
        if prepared.stream:
            machine.output = machine.take(events) + machine.finish()
        else:
            machine.take(events)
            machine.finish()
        return machine

    def _native(self, body: bytes, peek: Peek, target: Target, asked: Asked, notes: Notes) -> Prepared:
        return Prepared(
            body=self.upstream.native_request(body, peek, target, notes),
            stream=peek.stream,
            native=True,
            reply=Reply(asked.alias, asked.created, asked.seed, target.origin),
            source=Source(target.strict, target.origin, notes),
            notes=notes,
            clean=asked.clean,
        )

    def _translated(self, body: bytes, target: Target, asked: Asked, notes: Notes, amend: Amend | None) -> Prepared:
        conversation = self.client.parse(body, notes)
        check_size(conversation)
        if amend is not None:
            conversation = amend(conversation)
        check_resolved(conversation)
        conversation = msgspec.structs.replace(conversation, turns=adjacent(conversation.turns, notes))
        conversation = applied(conversation, target.traits)
        box = self._toolbox(conversation, target, notes)
        rendered = self.upstream.render(conversation, box, target, notes)
        controls, thinking = conversation.controls, conversation.controls.thinking
        setting = asked.reasoning
        return Prepared(
            body=rendered,
            stream=conversation.stream,
            native=False,
            reply=Reply(
                asked.alias,
                asked.created,
                asked.seed,
                target.origin,
                box,
                controls,
                conversation.include_usage,
                conversation.include_encrypted,
                conversation.echo,
                notes,
            ),
            source=Source(target.strict, target.origin, notes),
            notes=notes,
            shown=shown(controls.thinking, chat_client=self.client.name == "chat", setting=setting),
            carried=controls.thinking.mode != "disabled" and target.traits.opaque_state,
            # A Messages client that never spoke of thinking expects no block that is empty to read (E14 is for those
            # that did).
            bare=self.client.name != "messages" or controls.thinking.mode is not None,
            conversation=conversation,
            effort=effort_of(thinking) if self.upstream.name == "messages" else sent_effort(thinking, target),
            clean=asked.clean,
        )

    def _toolbox(self, conversation: Conversation, target: Target, notes: Notes) -> Toolbox:
        responses = self.upstream.name == "responses"
        custom = target.traits.free_text_tools if responses else target.traits.custom_tools
        return build(
            conversation,
            notes,
            limit=target.traits.tool_name_limit,
            custom_native=custom and self.upstream.name != "messages",
            namespaces_native=responses and target.traits.namespaces,
        )


def check_size(conversation: Conversation) -> None:
    """Raise Refused when a request has more messages, parts or tools than anyone's agent sends (section 8)."""
    counts = (
        ("messages", len(conversation.turns), MAX_TURNS),
        ("content blocks", sum(len(turn.parts) for turn in conversation.turns), MAX_PARTS),
        ("tools", len(conversation.tools), MAX_TOOLS),
    )
    for what, count, most in counts:
        if count > most:
            raise refuse(f"the request has {count} {what}; at most {most} are accepted")


class TranslatedStream:
    """Upstream bytes in, client bytes out, through splitter, decoder, sequencer and encoder (or fold).

    Start is held until the first event that means something, so that an error right after the handshake can
    still become an HTTP error or go to another key (S35, F4). For a client that wants no stream, `output` has
    the whole body once `done`.
    """

    def __init__(
        self,
        pair: Pair,
        prepared: Prepared,
        observe: Callable[[Event], None] | None = None,
        *,
        limit: int = MAX_FRAME_BYTES,
        budget: Budget = Budget(),
    ) -> None:
        self.tally = Tally(kinds={})
        self.begun = False
        self.done = False
        self.raw = b""
        self.output = b""
        self._pair = pair
        self._reply = prepared.reply
        self._clean = prepared.clean
        self._toolbox = prepared.reply.toolbox
        self._observe = observe
        self._splitter = Splitter(limit, MAX_FRAMES)
        self._decoder = pair.upstream.decoder(prepared.source)
        self._sequencer = Sequencer(
            prepared.notes, shown=prepared.shown, carried=prepared.carried, bare=prepared.bare, budget=budget
        )
        self._encoder = pair.client.encoder(prepared.reply)
        self._fold = None if prepared.stream else Fold()
        self._start: Start | None = None
        self._early: Usage | None = None
        self._left = MAX_ANSWER_BYTES

    @property
    def fault(self) -> Fault | None:
        """Return what ended the stream badly, None while it runs or when it ended well."""
        return self.tally.fault

    def feed(self, chunk: bytes) -> bytes:
        """Return what the client gets for one chunk of the upstream: the translation of all its events."""
        if self.done:
            return b""
        self._left -= len(chunk)
        if self._left < 0:
            return self.fail(broken("the upstream's answer is too large", cause="limit"))
        try:
            frames = self._splitter.feed(chunk)
        except Refused as refused:
            return self.fail(refused.fault)
        out: list[bytes] = []
        for frame in frames:
            self._take(self._decoder.push(frame), out)
            if self.tally.fault is not None:
                break
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the end of the stream at the upstream's end: its pending terminal, or the error form."""
        if self.done:
            return b""
        out = b""
        last = self._splitter.finish()
        if last is not None:
            out = self.take(self._decoder.push(last))
        if not self.done:
            out += self.take(self._decoder.finish())
        if not self.done:
            out += self.fail(broken("the upstream ended the answer without finishing it", cause="eof"))
        return out

    def fail(self, fault: Fault) -> bytes:
        """End the stream with a fault: the error form when it has begun, nothing before (an HTTP error follows)."""
        return b"" if self.done else self.take([Failed(fault)])

    def failure(self, fault: Fault) -> bytes:
        """Return the error form for a stream whose headers are out though nothing of the answer is."""
        return self._encoder.push(Failed(fault))

    def keepalive(self) -> bytes:
        """Return what keeps a silent connection alive here: a ping or a comment."""
        if self.done or self._fold is not None:
            return b""
        return self._encoder.keepalive() if self.begun else COMMENT

    def take(self, events: Iterable[Event]) -> bytes:
        """Return the client's bytes for decoder events."""
        out: list[bytes] = []
        self._take(events, out)
        return b"".join(out)

    def _take(self, events: Iterable[Event], out: list[bytes]) -> None:
        count, order = self.tally.count, self._sequencer.push
        for decoded in events:
            count(decoded)
            event = decoded
            if type(decoded) is BlockStart and decoded.kind == "tool":
                event = self._toolbox.restore(decoded)
            if self._observe is not None:
                self._observe(event)
            for ordered in order(event):
                if type(ordered) is Delta and self.begun:
                    out.append(self._encoder.push(ordered))
                else:
                    self._emit(ordered, out)

    def _emit(self, event: Event, out: list[bytes]) -> None:
        if type(event) is Failed:
            self.done = True
            fault = msgspec.structs.replace(event.fault, message=self._clean(event.fault.message))
            self.tally.fault, self.raw = fault, event.raw
            if self.begun:
                out.append(self._encoder.push(Failed(fault)))
            return
        if self._fold is not None:
            self._fold.push(event)
            if self._fold.done:
                self._answer()
            return
        if type(event) is Start:
            self._start = event
            return
        if type(event) is Usage and not self.begun:
            # Counts say nothing of the answer: an error may still follow them that becomes an HTTP error.
            self._early = event
            return
        self._begin(out)
        out.append(self._encoder.push(event))
        self.done = type(event) is Finish

    def _begin(self, out: list[bytes]) -> None:
        if not self.begun:
            self.begun = True
            out.append(self._encoder.push(self._start or Start()))
            if self._early is not None:
                out.append(self._encoder.push(self._early))

    def _answer(self) -> None:
        assert self._fold is not None
        self.done = True
        try:
            self.output = self._pair.client.answer(self._fold.answer, self._reply)
        except Refused as refused:
            self.tally.fault = refused.fault


Stream = NativeStream | TranslatedStream
