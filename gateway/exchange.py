"""One request, bytes to bytes: the only place where sockets, policy and translators meet (design.md 4).

Promises: a request moves to another key only after an effective 429 and only before anything of an answer was
sent (S35, S36); after that nothing is replayed; whatever happens, the upstream is let go, the lease handed
back and one record written.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import msgspec
from aiohttp import web

from gateway.affinity import fingerprint, short
from gateway.auth import Tenant
from gateway.body import read_body
from gateway.downstream import Downstream, error_response
from gateway.keypool import Lease, Resting
from gateway.models import Resolved, permitted
from gateway.pulse import Pulse
from gateway.recall import Recall, leans
from gateway.record import Record, outcome_of
from gateway.runtime import PAIRS, Runtime, Upstreams
from gateway.sessions import session_of
from gateway.thoughts import Thoughts
from gateway.watch import Watch
from providers.api import Call, Unreachable, Upstream, Verdict
from providers.transport import ERRORS, explain
from translators.dialect import Dialect, Peek, Target
from translators.events import Event
from translators.fault import Fault, Refused, broken
from translators.native import NativeStream, NativeWhole
from translators.pair import MAX_ANSWER_BYTES, Asked, Pair, Prepared, Stream

__all__ = ["Exchange"]

ERROR_BODY_BYTES = 256 * 1024
"""Of an upstream's error body only this much is read."""
RETRY_S = 1.0
"""Wait before the first further try of a 502 or 503; each next one waits twice as long."""
MENDS = 3
"""How often one key is tried again after its provider mended the request or the credential."""
WHOLE_WAITS = 4
"""A reply that is not streamed may take this many times `first_event_s` until its headers come."""

_STALLS = {
    "stalled_first_event": "the upstream sent no event in time",
    "stalled_first_meaning": "the upstream sent no content in time",
    "stalled_idle": "the upstream fell silent",
    "stalled_meaning_idle": "the upstream stopped sending content",
}


class Exchange:
    """Carry one generation request of one client through to its end."""

    def __init__(
        self,
        runtime: Runtime,
        request: web.BaseRequest,
        dialect: Dialect,
        tenant: Tenant,
        record: Record,
        created: int,
        *,
        body: bytes | None = None,
        downstream: Downstream | None = None,
    ) -> None:
        self.runtime = runtime
        self.request = request
        self.dialect = dialect
        self.tenant = tenant
        self.record = record
        self.downstream = downstream or Downstream(request, dialect, record.request_id)
        self._body = body
        self._created = created
        self.began = monotonic()
        self._waited = 0.0
        self._task = asyncio.current_task()
        self._pulse: Pulse | None = None
        self._upstream: Upstream | None = None
        self._interrupt: Fault | None = None
        self._machine: Stream | NativeWhole | None = None
        self._recall: Recall | None = None
        self._thoughts: Thoughts | None = None
        self._sent = b""
        self._session = ""
        self._events = self._meanings = 0

    async def run(self) -> web.StreamResponse:
        """Answer the client; returns the response that was sent, and leaves the record complete but for its end."""
        try:
            fault = await self._serve()
            if isinstance(fault, web.StreamResponse):
                return fault
            return await self._refuse(fault)
        except asyncio.CancelledError:
            if self._interrupt is None or self._task is None:
                raise
            self._task.uncancel()
            return await self._refuse(self._interrupt)
        finally:
            if self._pulse is not None:
                self._pulse.stop()
            if self._upstream is not None:
                self._upstream.abort()

    def stop(self, fault: Fault) -> None:
        """End the exchange from outside (shutdown): the client gets the error form of its protocol (S38)."""
        if self._interrupt is not None:
            return
        self._interrupt = fault
        if self._upstream is not None and self._machine is not None:
            self._upstream.abort()
        elif self._task is not None:
            self._task.cancel()

    # ------------------------------------------------------------------ steps 1 to 3: read, route

    async def _serve(self) -> web.StreamResponse | Fault:
        given, self._body = self._body, None
        limit = self.runtime.config.server.max_request_bytes
        body = given if given is not None else await read_body(self.request, limit)
        if isinstance(body, Fault):
            return body
        self.record.request_bytes = len(body)
        self._step("read")
        try:
            peek = self.dialect.peek(body)
        except Refused as refused:
            return refused.fault
        self.record.alias, self.record.stream = peek.model[:200], peek.stream
        session = session_of(self.request.headers, peek.session)
        self._session = fingerprint(self.runtime.pepper, self.tenant.name, self.dialect.name, session)
        self.record.session = short(self._session) or None
        resolved = self.runtime.resolve(peek.model)
        if resolved is None or not permitted(self.tenant.models, peek.model):
            return unknown_model(peek.model)
        return await self._routes(resolved, body, peek)

    async def _routes(self, resolved: Resolved, body: bytes, peek: Peek) -> web.StreamResponse | Fault:
        """Try the routes in order; the next one only for a listed reason, and only before a commit."""
        server = self.runtime.config.server
        self._pulse = Pulse(
            self.downstream, keepalive_s=server.keepalive_s, streaming=peek.stream, on_stall=self._drop_upstream
        )
        self._pulse.arm()
        last: Fault | None = None
        for number, route in enumerate(resolved.routes):
            if last is not None and not _falls_back(last, resolved.settings.fallback_on):
                break
            if number:
                self.record.failovers = (self.record.failovers or 0) + 1
            outcome = await self._route(resolved, route.provider, route.model or peek.model, body, peek)
            if not isinstance(outcome, Fault):
                return outcome
            last = outcome
            if self._machine is not None and self._machine.begun:
                break
        assert last is not None
        return last

    async def _route(
        self, resolved: Resolved, name: str, model: str, body: bytes, peek: Peek
    ) -> web.StreamResponse | Fault:
        upstreams = self.runtime.upstreams[name]
        provider = upstreams.provider
        pair = PAIRS[self.dialect.name, provider.dialect]
        self.record.provider, self.record.upstream_dialect = name, provider.dialect
        self.record.upstream_model = model[:200]
        target = self.runtime.target(resolved, provider, model)
        asked = Asked(
            alias=peek.model,
            created=self._created,
            seed=hashlib.sha256(self.record.request_id.encode()).hexdigest()[:24],
            reasoning=resolved.settings.reasoning,
            native=provider.native and not self._needs_memory(target, body),
            clean=self.runtime.scrub,
            count=lambda sent: self.runtime.tokens.count(name, model, sent)[0],
        )
        recall = self._recall = self._remembering(peek, asked.seed, target)
        thoughts = self._thoughts = Thoughts(self.runtime.shadow, self.tenant.name, self._session)
        prepared = pair.request(
            body,
            peek,
            target,
            asked,
            lambda c: provider.amend(thoughts.amend(recall.restore(c) if recall else c, target), target),
        )
        if isinstance(prepared, Fault):
            return prepared
        self._note(prepared)
        return await self._keys(upstreams, pair, prepared, model)

    def _remembering(self, peek: Peek, seed: str, target: Target) -> Recall | None:
        """Return what this request has to do with the replay store; only Responses clients refer to the past."""
        if self.dialect.name != "responses":
            return None
        runtime = self.runtime
        return Recall(
            runtime.replay.slot(runtime.pepper, self.tenant.name, peek.model),
            session=peek.session or "",
            seed=seed,
            target=target,
            whole=runtime.config.state.remember == "responses",
        )

    def _observer(self) -> Callable[[Event], None] | None:
        thoughts = self._thoughts.observer() if self._thoughts is not None else None
        if self._recall is None or thoughts is None:
            return self._recall.observe if self._recall is not None else thoughts
        recall = self._recall.observe

        def both(event: Event) -> None:
            recall(event)
            thoughts(event)

        return both

    def _needs_memory(self, target: Target, body: bytes) -> bool:
        """Tell whether a Responses request may name earlier answers that this upstream does not keep."""
        return self.dialect.name == "responses" and not target.traits.server_state and leans(body)

    def _note(self, prepared: Prepared) -> None:
        record = self.record
        record.upstream_request_bytes = len(prepared.body)
        self._sent = prepared.body
        record.notes = prepared.notes.count
        self.downstream.notes = prepared.notes.count
        if prepared.conversation is not None:
            record.effort = prepared.effort
            record.reasoning_shown = prepared.shown

    # ------------------------------------------------------------------ steps 3 to 6: keys, attempts, judgement

    async def _keys(
        self, upstreams: Upstreams, pair: Pair, prepared: Prepared, model: str
    ) -> web.StreamResponse | Fault:
        """Try keys until one is not rate limited; each at most once."""
        tried: set[str] = set()
        limited: Fault | None = None
        prefer = upstreams.affinity.get(self.tenant.name, self._session, monotonic()) if self._session else None
        upstreams.readmit()
        while True:
            lease = upstreams.pool.acquire(monotonic(), model, tried, prefer)
            if isinstance(lease, Resting):
                return _resting(lease, limited)
            tried.add(lease.key)
            self.record.key = lease.key
            outcome = await self._attempt(upstreams, pair, prepared, model, lease)
            if not isinstance(outcome, Fault):
                return outcome
            if not _moves_on(outcome, self._machine):
                return outcome
            limited = outcome

    async def _attempt(
        self, upstreams: Upstreams, pair: Pair, prepared: Prepared, model: str, lease: Lease
    ) -> web.StreamResponse | Fault:
        """Send the request with one key and report to the pool what became of it, whatever that is."""
        report: dict[str, Any] = {"outcome": "cancelled"}
        try:
            outcome, verdict = await self._send(upstreams, pair, prepared, prepared.body, model, lease)
            for waits in range(upstreams.retries):
                if self._begun() or not _passing(outcome, verdict):
                    break
                await asyncio.sleep(RETRY_S * 2**waits)
                self._waited += RETRY_S * 2**waits
                outcome, verdict = await self._send(upstreams, pair, prepared, prepared.body, model, lease)
            body = prepared.body
            for _ in range(MENDS):
                if verdict is None or self._begun() or not (verdict.renew or verdict.amended is not None):
                    break
                body = verdict.amended or body
                outcome, verdict = await self._send(upstreams, pair, prepared, body, model, lease)
            report = _report(outcome, verdict)
            return outcome
        finally:
            upstreams.pool.report(lease, report.pop("outcome"), monotonic(), **report)

    def _begun(self) -> bool:
        return self._machine is not None and self._machine.begun

    async def _send(
        self, upstreams: Upstreams, pair: Pair, prepared: Prepared, body: bytes, model: str, lease: Lease
    ) -> tuple[web.StreamResponse | Fault, Verdict | None]:
        provider, record = upstreams.provider, self.record
        call = Call(
            body=body,
            stream=prepared.stream,
            model=model,
            client=self.dialect.name,
            native=prepared.native,
            client_headers=self.request.headers,
            session=self._session,
            request_id=record.request_id,
        )
        record.attempts = (record.attempts or 0) + 1
        self._step(f"send {record.provider} {lease.key}")
        self._machine = None
        self._events = self._meanings = 0
        began = monotonic()
        wait = upstreams.timeouts.first_event_s * (1 if prepared.stream else WHOLE_WAITS)
        watch = Watch(upstreams.timeouts, began)
        try:
            async with asyncio.timeout(wait or None):
                upstream = self._upstream = await provider.open(call, lease.key)
        except Unreachable as unreachable:
            return unreachable.fault, None
        except TimeoutError:
            record.outcome = "stalled_first_event"
            return Fault(kind="timeout", message=_STALLS["stalled_first_event"], cause="stall"), None
        finally:
            self._waited += monotonic() - began
        record.headers_ms = self._step(f"headers {upstream.status}")
        if not 200 <= upstream.status < 300:
            return await self._judged(upstreams, upstream, call, lease)
        upstreams.pool.accept(lease)
        fault = await self._answer(upstream, pair, prepared, watch)
        return await self._settled(fault, upstreams, call, lease)

    async def _judged(
        self, upstreams: Upstreams, upstream: Upstream, call: Call, lease: Lease
    ) -> tuple[Fault, Verdict]:
        asked = monotonic()
        try:
            async with asyncio.timeout(upstreams.timeouts.idle_s or None):
                body = await upstream.read(ERROR_BODY_BYTES)
        except (*ERRORS, TimeoutError):
            body = b""
        finally:
            upstream.abort()
        verdict = await upstreams.provider.judge(upstream.status, upstream.headers, body, call, lease.key)
        self._waited += monotonic() - asked
        self._step(f"judged {verdict.fault.kind}")
        return self._scrubbed(verdict.fault), verdict

    async def _settled(
        self, fault: Fault | None, upstreams: Upstreams, call: Call, lease: Lease
    ) -> tuple[web.StreamResponse | Fault, Verdict | None]:
        """Turn the end of an answer into the client's response, or into a judged fault when nothing was sent."""
        machine = self._machine
        if fault is None:
            upstreams.affinity.put(self.tenant.name, self._session, lease.key, monotonic())
            return await self._done(), None
        self._drop_upstream()
        if machine is not None and machine.begun:
            return fault, None
        if machine is not None and machine.raw:
            verdict = await upstreams.provider.judge(200, {}, machine.raw, call, lease.key)
            return self._scrubbed(verdict.fault), verdict
        return fault, None

    def _scrubbed(self, fault: Fault) -> Fault:
        return msgspec.structs.replace(fault, message=self.runtime.scrub(fault.message))

    # ------------------------------------------------------------------ steps 7 and 8: commit, pump

    async def _answer(self, upstream: Upstream, pair: Pair, prepared: Prepared, watch: Watch) -> Fault | None:
        """Read the reply to its end; returns what broke it, None when the client has (or can get) the whole answer."""
        assert self._pulse is not None
        self._pulse.watch, self._pulse.keepalive = watch, None
        self._pulse.arm()
        chunks = upstream.chunks()
        if self._recall is not None:
            chunks = self._recall.tapped(chunks, prepared)
        try:
            return await self._pump(chunks, upstream, pair, prepared, watch)
        except ERRORS as error:
            return await self._broken(error)
        finally:
            self._pulse.watch, self._pulse.keepalive = None, None

    async def _pump(
        self, chunks: AsyncIterator[bytes], upstream: Upstream, pair: Pair, prepared: Prepared, watch: Watch
    ) -> Fault | None:
        assert self._pulse is not None
        first = await self._first(chunks, watch)
        if _is_document(first, upstream.headers.get("content-type", "")):
            return await self._document(first, chunks, pair, prepared, watch)
        machine = self._machine = pair.stream(prepared, self._observer())
        self._pulse.keepalive = machine.keepalive
        await self._feed(machine, machine.feed(first), watch)
        while not machine.done:
            asked = monotonic()
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                break
            finally:
                self._waited += monotonic() - asked
            await self._feed(machine, machine.feed(chunk), watch)
        if self._pulse.stalled is not None or self._interrupt is not None:
            return await self._broken(ConnectionError())
        out = machine.finish()
        if out:
            await self.downstream.write(out)
        return machine.fault

    async def _first(self, chunks: AsyncIterator[bytes], watch: Watch) -> bytes:
        """Return the first bytes of the body that are not white space, b"" at its end."""
        asked = monotonic()
        try:
            async for chunk in chunks:
                watch.alive(monotonic())
                if chunk.strip():
                    return chunk
            return b""
        finally:
            self._waited += monotonic() - asked

    async def _feed(self, machine: Stream, out: bytes, watch: Watch) -> None:
        """Take one chunk's outcome: timers first, then one write."""
        now = monotonic()
        tally, record = machine.tally, self.record
        watch.alive(now)
        if tally.events != self._events:
            self._events = tally.events
            watch.event(now)
            if record.first_event_ms is None:
                record.first_event_ms = _ms(now - self.began)
        if tally.meanings != self._meanings:
            self._meanings = tally.meanings
            watch.meaning(now)
            self._first_times(machine, now)
        if out:
            await self.downstream.write(out)

    def _first_times(self, machine: Stream | NativeWhole, now: float) -> None:
        record, tally = self.record, machine.tally
        elapsed = _ms(now - self.began)
        if record.first_meaning_ms is None:
            record.first_meaning_ms = elapsed
        if tally.text_bytes and record.first_text_ms is None:
            record.first_text_ms = elapsed
        if tally.tool_calls and record.first_tool_ms is None:
            record.first_tool_ms = elapsed

    async def _document(
        self, first: bytes, chunks: AsyncIterator[bytes], pair: Pair, prepared: Prepared, watch: Watch
    ) -> Fault | None:
        """Take a reply that is one JSON body, whether the client asked for a stream or not (E27)."""
        parts, size, asked = [first], len(first), monotonic()
        try:
            async for chunk in chunks:
                watch.meaning(monotonic())
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    return broken("the upstream's answer is too large", cause="limit")
                parts.append(chunk)
        finally:
            self._waited += monotonic() - asked
        if self._pulse is not None and self._pulse.stalled is not None:
            return await self._broken(ConnectionError())
        machine = self._machine = pair.whole(prepared, b"".join(parts), self._observer())
        now = monotonic()
        self.record.first_event_ms = self.record.first_event_ms or _ms(now - self.began)
        self._first_times(machine, now)
        if prepared.stream and machine.begun:
            await self.downstream.write(machine.output)
        return machine.fault

    async def _broken(self, error: Exception) -> Fault | None:
        """End the machine of a reply that broke off; returns None when its terminal had been seen before (F2)."""
        machine = self._machine
        ours = self._interrupt or self._stall()
        if machine is None or isinstance(machine, NativeWhole):
            return ours or explain(error)
        out = machine.fail(ours) if ours is not None else machine.finish()
        if out:
            await self.downstream.write(out)
        return machine.fault

    def _stall(self) -> Fault | None:
        name = self._pulse.stalled if self._pulse is not None else None
        if name is None:
            return None
        self.record.outcome = name  # type: ignore[assignment]
        self._step(name)
        return Fault(kind="timeout", message=_STALLS[name], cause="stall")

    def _step(self, kind: str) -> float:
        """Note a moment for the record's flight list; returns its milliseconds."""
        at = _ms(monotonic() - self.began)
        self.record.step(at, kind)
        return at

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.abort()

    # ------------------------------------------------------------------ step 9: the end

    async def _done(self) -> web.StreamResponse:
        machine = self._machine
        assert machine is not None
        upstream, self._upstream = self._upstream, None
        try:
            if self.downstream.started:
                return await self.downstream.end()
            return self.downstream.whole(machine.output)
        finally:
            if upstream is not None:
                await upstream.release()

    async def _refuse(self, fault: Fault) -> web.StreamResponse:
        """Give the client a fault: an HTTP error while that is possible, else the error form of its stream."""
        self.record.error_kind = fault.kind
        if self.record.outcome is None:
            self.record.outcome = outcome_of(fault, None)
        if not self.downstream.started:
            return error_response(self.dialect, fault, self.record.request_id)
        machine = self._machine
        if machine is None or not machine.begun:
            form = machine.failure(fault) if machine is not None else self.dialect.native_failure(fault)
            await self.downstream.write(form)
        return await self.downstream.end()

    def finish(self) -> None:
        """Complete the record from what the answer amounted to."""
        record, machine = self.record, self._machine
        if machine is not None:
            record.take(machine.tally, native=isinstance(machine, NativeStream | NativeWhole))
            if record.outcome is None and machine.done:
                record.outcome = outcome_of(machine.fault, machine.tally.stop)
        if self._sent and self._session:
            self.runtime.prefixes.note(record, self.tenant.name, self._session, self._sent)
        if self._sent:
            name, model = record.provider or "", record.upstream_model or ""
            self.runtime.tokens.learn(name, model, self._sent, record.input_tokens)
        if self.downstream.first_write is not None:
            record.first_byte_ms = _ms(self.downstream.first_write - self.began)
        record.overhead_ms = _ms(max(0.0, monotonic() - self.began - self._waited))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def unknown_model(name: str) -> Fault:
    """Return the Fault for a model that no alias names or that this client may not use."""
    shown = name[:100]
    return Fault(
        kind="not_found",
        message=f"model {shown!r} is not configured here; GET /v1/models lists what is",
        cause="client",
        code="model_not_found",
        param="model",
    )


def _falls_back(fault: Fault, reasons: tuple[str, ...]) -> bool:
    if fault.cause == "client":
        return False
    if fault.kind == "rate_limited":
        return "rate_limited" in reasons
    return "unavailable" in reasons and fault.kind in ("overloaded", "timeout", "api")


def _moves_on(fault: Fault, machine: Stream | NativeWhole | None) -> bool:
    """Tell whether another key may be tried: an effective 429, and nothing of an answer sent (promises 1 and 2)."""
    return fault.kind == "rate_limited" and (machine is None or not machine.begun)


def _passing(outcome: web.StreamResponse | Fault, verdict: Verdict | None) -> bool:
    """Tell whether an upstream's own 502 or 503 may be over soon; no answer at all is not repeated (S35)."""
    return isinstance(outcome, Fault) and verdict is not None and not verdict.limited and outcome.status in (502, 503)


def _resting(resting: Resting, limited: Fault | None) -> Fault:
    if resting.reason == "rejected":
        message = "the upstream refuses every configured key; the operator has to replace them"
        return limited or Fault(kind="authentication", status=502, message=message, cause="gateway")
    if limited is not None:
        return msgspec.structs.replace(limited, retry_after_s=resting.retry_after_s)
    return Fault(
        kind="rate_limited",
        message="every key of the upstream is resting after its rate limit",
        code="rate_limit_exceeded",
        retry_after_s=resting.retry_after_s,
    )


def _report(outcome: web.StreamResponse | Fault, verdict: Verdict | None) -> dict[str, Any]:
    if not isinstance(outcome, Fault):
        return {"outcome": "ok"}
    if verdict is not None and verdict.limited:
        return {"outcome": "limited", "wait_s": verdict.wait_s, "model": verdict.limited_model}
    if verdict is not None and verdict.rejected:
        return {"outcome": "rejected"}
    return {"outcome": "failed"}


def _is_document(first: bytes, content_type: str) -> bool:
    """Tell whether a body is one document rather than an event stream, whatever its headers claim."""
    start = first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return start in (b"{", b"[", b"<") or (not first and "event-stream" not in content_type)
