"""One request, bytes to bytes: the only place where sockets, policy and translators meet (design.md 4).

Promises: a request moves to another key only after an effective 429 and only before anything of an answer was
sent (S35, S36); after that nothing is replayed; whatever happens, the upstream is let go, the lease handed
back and one record written.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable
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
from gateway.pump import STALLS, Pump
from gateway.recall import Recall
from gateway.record import Record, outcome_of
from gateway.runtime import PAIRS, Runtime, Upstreams
from gateway.sessions import session_of
from gateway.thoughts import Thoughts
from gateway.timing import Timing
from gateway.turns import WAIT_S
from gateway.watch import Watch
from providers.api import Call, Unreachable, Upstream, Verdict
from providers.transport import ERRORS
from translators.dialect import Dialect, Peek, Target
from translators.events import Event
from translators.fault import Fault, Refused
from translators.native import NativeStream, NativeWhole
from translators.pair import Asked, Pair, Prepared, Stream

__all__ = ["Exchange"]

ERROR_BODY_BYTES = 256 * 1024
"""Of an upstream's error body only this much is read."""
RETRY_S = 1.0
"""Wait before the first further try of a 502 or 503; each next one waits twice as long."""
AGAIN = 2
"""Further tries with the same key where the provider itself asks for them (`Verdict.again_s`)."""
MENDS = 3
"""How often one key is tried again after its provider mended the request or the credential."""
WHOLE_WAITS = 4
"""A reply that is not streamed may take this many times `first_event_s` until its headers come."""

_BUSY = "every usable key of the upstream is busy with other requests; try again in a moment"


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
        self.timing = Timing(record)
        self._task = asyncio.current_task()
        self._pulse: Pulse | None = None
        self._upstream: Upstream | None = None
        self._pump: Pump | None = None
        self._interrupt: Fault | None = None
        self._recall: Recall | None = None
        self._thoughts: Thoughts | None = None
        self._sent = b""
        self._session = ""

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
        if self._pump is not None and self._pump.machine is not None and self._upstream is not None:
            self._pump.interrupt = fault
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
        self.timing.step("read")
        try:
            peek = self.dialect.peek(body)
        except Refused as refused:
            return refused.fault
        self.record.alias, self.record.stream = peek.model[:200], peek.stream
        session = session_of(self.request.headers, peek)
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
        pump = self._pump = Pump(self.downstream, self._pulse, self.timing, self.record)
        last: Fault | None = None
        for number, route in enumerate(resolved.routes):
            if last is not None and not _falls_back(last, resolved.settings.fallback_on):
                break
            if number:
                self.record.failovers = (self.record.failovers or 0) + 1
            outcome = await self._route(pump, resolved, route.provider, route.model or peek.model, body, peek)
            if not isinstance(outcome, Fault):
                return outcome
            last = outcome
            if pump.begun:
                break
        assert last is not None
        return last

    async def _route(
        self, pump: Pump, resolved: Resolved, name: str, model: str, body: bytes, peek: Peek
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
            native=provider.native,
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
        return await self._keys(pump, upstreams, pair, prepared, model)

    def _remembering(self, peek: Peek, seed: str, target: Target) -> Recall | None:
        """Return what this request has to do with the replay store; only Responses clients refer to the past."""
        if self.dialect.name != "responses":
            return None
        runtime = self.runtime
        return Recall(
            runtime.replay.slot(runtime.pepper, self.tenant.name, peek.model),
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

    def _note(self, prepared: Prepared) -> None:
        record = self.record
        record.upstream_request_bytes = len(prepared.body)
        self._sent = prepared.body
        record.notes = prepared.notes.count
        self.downstream.notes = prepared.notes
        if prepared.conversation is not None:
            record.effort = prepared.effort
            record.reasoning_shown = prepared.shown

    # ------------------------------------------------------------------ steps 3 to 6: keys, attempts, judgement

    async def _keys(
        self, pump: Pump, upstreams: Upstreams, pair: Pair, prepared: Prepared, model: str
    ) -> web.StreamResponse | Fault:
        """Try keys until one is not rate limited; each at most once. Waits for a key that others are using."""
        tried: set[str] = set()
        limited: Fault | None = None
        prefer = upstreams.affinity.get(self.tenant.name, self._session, model, monotonic()) if self._session else None
        upstreams.readmit()
        patience = WAIT_S
        while True:
            began = monotonic()
            with self.timing:
                lease = await upstreams.turns.take(model, tried, prefer, patience)
            patience -= monotonic() - began
            if isinstance(lease, Resting):
                return _resting(lease, limited)
            if tried:
                self.record.failovers = (self.record.failovers or 0) + 1
            tried.add(lease.key)
            self.record.key = lease.key
            outcome, verdict = await self._attempt(pump, upstreams, pair, prepared, model, lease)
            # Promises 1 and 2: only an effective 429 moves on, and only while nothing of an answer was sent.
            if not isinstance(outcome, Fault) or pump.begun or verdict is None or not verdict.limited:
                return outcome
            limited = outcome

    async def _attempt(
        self, pump: Pump, upstreams: Upstreams, pair: Pair, prepared: Prepared, model: str, lease: Lease
    ) -> tuple[web.StreamResponse | Fault, Verdict | None]:
        """Send the request with one key and report to the pool what became of it, whatever that is."""
        report: dict[str, Any] = {"outcome": "cancelled"}
        try:
            outcome, verdict = await self._send(pump, upstreams, pair, prepared, prepared.body, model, lease)
            for waits in range(max(upstreams.retries, AGAIN)):
                pause = None if pump.begun else _pause(outcome, verdict, waits, upstreams.retries)
                if pause is None:
                    break
                with self.timing:
                    await asyncio.sleep(pause)
                outcome, verdict = await self._send(pump, upstreams, pair, prepared, prepared.body, model, lease)
            body = prepared.body
            for _ in range(MENDS):
                if verdict is None or pump.begun or not (verdict.renew or verdict.amended is not None):
                    break
                body = verdict.amended or body
                outcome, verdict = await self._send(pump, upstreams, pair, prepared, body, model, lease)
            report = _report(outcome, verdict)
            return outcome, verdict
        finally:
            upstreams.turns.report(lease, report.pop("outcome"), **report)

    async def _send(
        self, pump: Pump, upstreams: Upstreams, pair: Pair, prepared: Prepared, body: bytes, model: str, lease: Lease
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
            tenant=self.tenant.name,
            request_id=record.request_id,
        )
        record.attempts = (record.attempts or 0) + 1
        self.timing.step(f"send {record.provider} {lease.key}")
        pump.reset()
        wait = upstreams.timeouts.first_event_s * (1 if prepared.stream else WHOLE_WAITS)
        watch = Watch(upstreams.timeouts, monotonic())
        try:
            with self.timing:
                async with asyncio.timeout(wait or None):
                    upstream = self._upstream = await provider.open(call, lease.key)
        except Unreachable as unreachable:
            return unreachable.fault, None
        except TimeoutError:
            record.outcome = "stalled_first_event"
            return Fault(kind="timeout", message=STALLS["stalled_first_event"], cause="stall"), None
        record.headers_ms = self.timing.step(f"headers {upstream.status}")
        if not 200 <= upstream.status < 300:
            return await self._judged(upstreams, upstream, call, lease)
        upstreams.turns.accept(lease)
        kind = upstream.headers.get("content-type", "")
        fault = await pump.answer(upstream.chunks(), kind, pair, prepared, watch, self._observer())
        self.record.notes = prepared.notes.count  # with what the answer itself lost
        return await self._settled(fault, pump, upstreams, call, lease)

    async def _judged(
        self, upstreams: Upstreams, upstream: Upstream, call: Call, lease: Lease
    ) -> tuple[Fault, Verdict]:
        with self.timing:
            try:
                async with asyncio.timeout(upstreams.timeouts.idle_s or None):
                    body = await upstream.read(ERROR_BODY_BYTES)
            except (*ERRORS, TimeoutError):
                body = b""
            finally:
                upstream.abort()
            verdict = await upstreams.provider.judge(upstream.status, upstream.headers, body, call, lease.key)
        self.timing.step(f"judged {verdict.fault.kind}")
        return self._scrubbed(verdict.fault), verdict

    async def _settled(
        self, fault: Fault | None, pump: Pump, upstreams: Upstreams, call: Call, lease: Lease
    ) -> tuple[web.StreamResponse | Fault, Verdict | None]:
        """Turn the end of an answer into the client's response, or into a judged fault when nothing was sent."""
        machine = pump.machine
        if fault is None:
            upstreams.affinity.put(self.tenant.name, self._session, call.model, lease.key, monotonic())
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

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.abort()

    # ------------------------------------------------------------------ step 9: the end

    async def _done(self) -> web.StreamResponse:
        machine = self._machine()
        assert machine is not None
        upstream, self._upstream = self._upstream, None
        try:
            if self.downstream.started:
                return await self.downstream.end()
            return self.downstream.whole(machine.output)
        finally:
            if upstream is not None:
                with self.timing:
                    await upstream.release()

    async def _refuse(self, fault: Fault) -> web.StreamResponse:
        """Give the client a fault: an HTTP error while that is possible, else the error form of its stream."""
        self.record.error_kind = fault.kind
        if self.record.outcome is None:
            self.record.outcome = outcome_of(fault, None)
        if not self.downstream.started:
            return error_response(self.dialect, fault, self.record.request_id)
        machine = self._machine()
        if machine is None or not machine.begun:
            form = machine.failure(fault) if machine is not None else self.dialect.native_failure(fault)
            await self.downstream.write(form)
        return await self.downstream.end()

    def finish(self) -> None:
        """Complete the record from what the answer amounted to."""
        record, machine = self.record, self._machine()
        if machine is not None:
            record.take(machine.tally, native=isinstance(machine, NativeStream | NativeWhole))
            if record.outcome is None and machine.done:
                record.outcome = outcome_of(machine.fault, machine.tally.stop)
        self.timing.close(self.downstream.first_write)  # what follows, the client does not wait for
        if self._sent:
            self.runtime.prefixes.note(record, self.tenant.name, self._session, self._sent)
        if self._sent:
            name, model = record.provider or "", record.upstream_model or ""
            self.runtime.tokens.learn(name, model, self._sent, record.input_tokens)

    def _machine(self) -> Stream | NativeWhole | None:
        return self._pump.machine if self._pump is not None else None


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


def _pause(outcome: web.StreamResponse | Fault, verdict: Verdict | None, waits: int, retries: int) -> float | None:
    """Return the seconds after which the same key is tried again, None if it is not.

    Only an error of the upstream's own that may be over soon is; no answer at all is not repeated (S35).
    """
    if not isinstance(outcome, Fault) or verdict is None or verdict.limited:
        return None
    if verdict.again_s is not None:
        return random.uniform(0, verdict.again_s * 2**waits)  # noqa: S311 - jitter
    return RETRY_S * 2**waits if waits < retries and outcome.status in (502, 503) else None


def _resting(resting: Resting, limited: Fault | None) -> Fault:
    if resting.reason == "rejected":
        message = "the upstream refuses every configured key; the operator has to replace them"
        # 403, not 5xx: agents would try for minutes what only the operator can mend (spec/grok.md 16.10).
        return limited or Fault(kind="permission", message=message, cause="gateway")
    if limited is not None:
        return msgspec.structs.replace(limited, retry_after_s=resting.retry_after_s)
    busy = resting.reason == "busy"
    return Fault(
        kind="rate_limited",
        message=_BUSY if busy else "every key of the upstream is resting after its rate limit",
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
