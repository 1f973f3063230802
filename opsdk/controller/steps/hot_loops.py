"""Finds requests that reconcile themselves repeatedly. Pure but for the step: the caller passes the time.

A pass is own if each of its causes is the event of an own write: one that this process sent as a whole, or one of the
pass before it. 100 own passes in a row, besides one in a second, are a hot loop: each pass writes, and each write is
the cause of the next pass. Polls, retries and events of others are foreign causes, which end the series; so does a pass
that writes nothing.

A write whose response was lost has no known version: the next event of its object counts as its own, and a retry
together with that event is not a foreign cause. Otherwise a lossy connection would hide every hot loop.

A hot loop is reported once, and its passes wait 1 s, 2 s, 4 s, up to a minute. A foreign cause starts a pass at once.

Upstream: none; Crossplane's circuit breaker counts the events of watches, whatever caused them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.kinds import as_unstructured
from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import RequestSent
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.telemetry.records import HotLoopFound, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Own passes in a second that are not a hot loop, besides the first ones. A token bucket: idle times save nothing.
_RATE = 1.0
_FIRST_DELAY, _MAX_DELAY = 1.0, 60.0
# Seconds after its last pass for which own passes are kept: longer than the longest delay.
_KEEP = 3 * _MAX_DELAY
_MAX_REQUESTS = 10_000


class HotLoopReport(msgspec.Struct, frozen=True, kw_only=True):
    """A hot loop that was found.

    Attributes:
        passes: number of own passes in a row.
        seconds: since the first of them.
        delay: seconds that the next pass waits.
        chain: the last write, and the event that it caused.
    """

    passes: int
    seconds: float
    delay: float
    chain: str

    def __str__(self) -> str:
        return (
            f"reconciled itself {self.passes} times in {self.seconds:.3g} s without a foreign cause: {self.chain}. "
            f"The next reconcile waits {self.delay:g} s, later ones longer"
        )


class OwnPasses(msgspec.Struct, gc=False):
    """The own passes of a request in a row.

    Attributes:
        began_at: end of the pass before the first one.
        last_at: end of the last one.
        writes: of the last one.
        passes: number of them.
        level: the same, less one for each second.
        chain: the last write and its event.
        delay: seconds that the next one waits; 0 before the loop was found.
        next_at: when the next one may begin.
    """

    began_at: float
    last_at: float
    writes: Sequence[RequestSent]
    passes: int = 0
    level: float = 0.0
    chain: str = ""
    delay: float = 0.0
    next_at: float = 0.0


class HotLoops:
    """The own passes of the requests of one controller.

    Args:
        limit: own passes in a row that are not a hot loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._drops_at = 0.0
        self.own_passes: dict[Hashable, OwnPasses] = {}
        """Requests whose last pass wrote something, those of the newest passes last."""

    def begins(self, request: Hashable, causes: Sequence[ReconcileCause], now: float) -> float:
        """Return the seconds that a pass must wait; 0 if it begins now. Call it for requests in `own_passes`."""
        own = self.own_passes[request]
        is_lost = any(not sent.status for sent in own.writes)
        links = [_link(cause, own.writes) for cause in causes if not (is_lost and cause.source == "retry")]
        if not links or not all(links):
            del self.own_passes[request]
            return 0.0
        if now < own.next_at:
            return own.next_at - now
        own.passes += 1
        own.level += 1
        own.chain = links[-1]
        return 0.0

    def ended(self, request: Hashable, requests: Sequence[RequestSent], now: float) -> HotLoopReport | None:
        """Record what a pass sent, and return the hot loop if one was found that is not reported yet."""
        own = self.own_passes.pop(request, None)
        writes = [s for s in requests if s.verb not in ("get", "list") and (s.resource_version or not s.status)]
        if not writes:
            return None
        if own is None:
            own = OwnPasses(began_at=now, last_at=now, writes=writes)
        own.level = max(own.level - (now - own.last_at) * _RATE, 0.0)
        own.last_at, own.writes = now, writes
        self.own_passes[request] = own
        if now >= self._drops_at or len(self.own_passes) > _MAX_REQUESTS:
            self._drop_old(now)
        if own.level <= self._limit and not own.delay:
            return None
        is_new = not own.delay
        own.delay = min(2 * own.delay, _MAX_DELAY) if own.delay else _FIRST_DELAY
        own.next_at = now + own.delay
        if not is_new:
            return None
        return HotLoopReport(passes=own.passes, seconds=now - own.began_at, delay=own.delay, chain=own.chain)

    def descriptions(self, limit: int) -> list[str]:
        """Return the hot loops that last now, in words, at most `limit`. To show them."""
        hot = ((request, own) for request, own in self.own_passes.items() if own.delay)
        return [
            f"{request} reconciled itself {own.passes} times: {own.chain}; each pass waits {own.delay:g} s"
            for request, own in islice(hot, limit)
        ]

    def _drop_old(self, now: float) -> None:
        while self.own_passes:
            request, own = next(iter(self.own_passes.items()))
            if now - own.last_at < _KEEP and len(self.own_passes) <= _MAX_REQUESTS:
                self._drops_at = own.last_at + _KEEP  # none is older, and they only become newer
                return
            del self.own_passes[request]


class HotLoopStep:
    """Reports a request that reconciles itself repeatedly: once in the log, as a metric, and as an Event.

    In the chain with the option ``hot_loop_limit``.

    Args:
        controller: its name.
        loops: the own passes.
        hook: receives `HotLoopFound`.
        records_events: the controller has a cluster for the Event.
    """

    def __init__(self, controller: str, loops: HotLoops, hook: TelemetryHook, *, records_events: bool) -> None:
        self._controller = controller
        self._loops = loops
        self._hook = hook
        self._records_events = records_events

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        attempt = await proceed(work)
        requests, item = work.activity.requests, work.queue_item.item
        if _causes_nothing(requests, work.own_changes):
            self._loops.own_passes.pop(item, None)
        else:
            report = self._loops.ended(item, requests, monotonic())
            if report is not None:
                await self._show(work, str(report))
        return attempt

    async def _show(self, work: ReconcilePass, description: str) -> None:
        ctx = work.ctx
        log.warning("controller %s: %s %s", self._controller, ctx.request, description)
        self._hook.record(HotLoopFound(controller=self._controller, request=str(ctx.request), description=description))
        if work.kind is None or not self._records_events:
            return
        obj = ctx.object or await ctx.client.get_or_none(as_unstructured(work.kind), work.key)
        if obj is not None:
            ctx.event("HotLoop", description, type="Warning", regarding=obj, action="Reconcile")


def _causes_nothing(requests: Sequence[RequestSent], own_changes: Sequence[tuple[str, str]]) -> bool:
    """Whether a pass sent nothing but one write whose event is dropped: so does nearly every pass."""
    if len(requests) != 1 or len(own_changes) != 1:
        return not requests
    return requests[0].resource_version == own_changes[0][1]


def _link(cause: ReconcileCause, writes: Sequence[RequestSent]) -> str:
    """Return the write and the event that it caused; empty for a foreign cause."""
    for sent in writes:
        # A deletion in a gap of the watch has the version of the last write that the informer saw.
        is_kept = cause.event != "delete" or sent.verb == "delete"
        is_lost = not sent.status and sent.gvk.endswith(f"Kind={cause.source}")
        if cause.key == sent.key and is_kept and (is_lost or cause.resource_version == sent.resource_version):
            return f"{sent}, then {cause}"
    return str(cause) if cause.own else ""
