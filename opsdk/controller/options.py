"""Options of controllers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any

from opsdk.base.durations import as_seconds
from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.controller.pausing import Pausing
from opsdk.controller.retries import RetryLimit
from opsdk.controller.steps.condition_writer import CONDITION_TYPE
from opsdk.controller.steps.last_reconciled import PLACE
from opsdk.errors import UsageError
from opsdk.event.sources import SyncPolicy
from opsdk.queue.core import MAX_WAIT
from opsdk.queue.fairness import Fairness
from opsdk.queue.rate_limiters import RateLimiter

# Seconds for a source to sync, as controller-runtime's CacheSyncTimeout.
_SYNC_TIMEOUT = 120.0


class QueueOptions(Options, frozen=True, kw_only=True):
    """Options of what processes a work queue.

    Attributes:
        shutdown_timeout: seconds for running work to finish at stop, before it is cancelled.
        needs_leader_election: run only on the elected replica.
        rate_limiter: delays after failures; None for the default.
        pausing: what the annotation ``opsdk.dev/paused`` does; None ignores it.
    """

    shutdown_timeout: float = 20.0
    needs_leader_election: bool = True
    rate_limiter: RateLimiter[Any] | None = None
    pausing: Pausing | None = Pausing()

    def __post_init__(self) -> None:
        if (problem := next(self._problems(), None)) is not None:
            raise UsageError(f"{caller_place()}: {problem}")

    def _problems(self) -> Iterator[str]:
        """Iterate over what is wrong with the values."""
        yield from self._wrong_types(bool, "True or False", "needs_leader_election")
        yield from self._wrong_times("shutdown_timeout")
        limiter: object = self.rate_limiter
        if limiter is not None and (isinstance(limiter, type) or not callable(getattr(limiter, "when", None))):
            yield f"rate_limiter is {limiter!r}: pass an instance of a class of opsdk.queue.rate_limiters"
        pausing: object = self.pausing
        if pausing is not None and not isinstance(pausing, Pausing):
            yield (
                f"pausing takes the options of pauses, but got {pausing!r}: "
                "write pausing=Pausing(...), or pausing=None to ignore pauses"
            )

    def _wrong_types(self, cls: type, words: str, *names: str) -> Iterator[str]:
        for name in names:
            if not isinstance(value := getattr(self, name), cls):
                yield f"{name} is {value!r}: pass {words}"

    def _wrong_times(self, *names: str) -> Iterator[str]:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                yield f"{name} is {value!r}: pass a number of seconds, at least 0"

    def _wrong_numbers(self, least: int, words: str, *names: str) -> Iterator[str]:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                yield f"{name} is {value!r}: pass {words}"


class ControllerOptions(QueueOptions, frozen=True, kw_only=True):
    """Options of a `Controller`. Times are in seconds.

    Attributes:
        max_concurrent_reconciles: number of workers; two workers never process the same key.
        cache_sync_timeout: time for every source to sync, see `sync_policy`. None is 120 s.
        sync_policy: action when a source cannot sync because its CRD, namespace or permission is missing. None is
            FAIL with a `cache_sync_timeout`, else RETRY. A source may have a policy of its own.
        reconciliation_timeout: seconds for one reconcile before it is cancelled and counts as failed, with what opsdk
            reads and writes for it; 0 for no limit.
        shutdown_timeout: time for running reconciles to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        enable_warmup: start the sources before this replica leads, so that its caches are full when it
            does. Reconciles start with leadership only.
        rate_limiter: delays after failures; default: per key from 5 ms to 1000 s. Each controller gets a copy of its
            own, so that options may be shared. ``ItemExponentialFailureRateLimiter(base=1, cap=60)`` waits 1 to 60 s.
        retry_limit: when a request that fails is given up: it waits for the next event. None for never. The object gets
            a Warning Event ``RetryLimitExceeded``.
        finalizer_retry_limit: the same for finalizers of an object that is being deleted.
        error_condition: a condition of the object's status that a failed reconcile sets to True, with the error as
            reason and message, and a successful one to False; such as ``Stalled``. If nothing changes, nothing is
            written. Of this and of `ready_condition`, one that the reconciler sets in a pass wins. Empty for none.
        delete_in_reverse: children are deleted before their owner, each child once those that come after it are gone.
            The owner gets a finalizer for that. Only children of kinds in ``owns`` are deleted.
        ready_condition: a condition of the object's status, such as ``Ready``, that is True if every child with
            ``ready=`` is ready. It is False with the reason ``Waiting`` while a child is not ready. A reconcile that
            fails sets it to False, unless it is True for the same generation and the reconcile has confirmed that: it
            has found the same children ready, and handled each external resource of the object, before the error.
            Empty for no condition.
        max_interval: the longest time between two reconciles of an object, in seconds or as a timedelta; 0 for no
            limit. A tenth of it is random jitter.
        ignore_own_status_writes: the status that a reconcile writes does not reconcile its object again, and neither do
            the finalizers that opsdk adds. All other changes do, and so does a status that was written without the
            object's resource version: `Context.status` and ``update`` send it.
        last_reconciled: where the spec that was last reconciled successfully is kept, for `Context.changed`:
            ``"annotation"``, or a field of the status such as ``"status.last_spec"``. It is written after a success if
            the spec has changed. Empty keeps nothing.
        blocking_threads: number of threads for reconcilers and finalizers that are plain functions; 0 for one for each
            worker. With fewer, some workers wait.
        fairness: shares the workers between namespaces, or between other groups of requests, so that no tenant waits
            for the requests of another one; None reconciles requests of one priority in the order they became ready.
        max_wait: seconds that requests of a lower priority (initial lists, resyncs, `max_interval`) wait behind live
            changes. After that, every second reconcile is one of theirs, so none starves. 0 for no limit.
        pausing: how paused objects are treated, see `opsdk.controller.pausing`; None ignores the annotation.
            Controllers without a kind, or without a cluster, have no pauses.
        hot_loop_limit: number of reconciles of an object in a row, faster than one a second, that only its own writes
            cause, before they are logged and slowed, see `opsdk.controller.steps.hot_loops`; 0 for no limit. Needs the
            journal.
    """

    max_concurrent_reconciles: int = 1
    cache_sync_timeout: float | None = None
    sync_policy: SyncPolicy | None = None
    reconciliation_timeout: float = 0.0
    enable_warmup: bool = True
    retry_limit: RetryLimit | None = None
    finalizer_retry_limit: RetryLimit | None = None
    error_condition: str = ""
    ready_condition: str = ""
    delete_in_reverse: bool = False
    max_interval: float | timedelta = 0.0
    ignore_own_status_writes: bool = True
    last_reconciled: str = ""
    blocking_threads: int = 0
    fairness: Fairness | None = None
    hot_loop_limit: int = 100
    max_wait: float = MAX_WAIT

    def _problems(self) -> Iterator[str]:
        yield from self._wrong_numbers(1, "a number of workers, at least 1", "max_concurrent_reconciles")
        yield from super()._problems()
        yield from self._wrong_types(bool, "True or False", "enable_warmup", "ignore_own_status_writes")
        yield from self._wrong_times("reconciliation_timeout", "max_wait")
        if self.cache_sync_timeout is not None:
            yield from self._wrong_times("cache_sync_timeout")
        if self.sync_policy is not None:
            yield from self._wrong_types(SyncPolicy, "a member of opsdk.event.sources.SyncPolicy", "sync_policy")
        place: object = self.last_reconciled
        if not isinstance(place, str) or (place and not PLACE.fullmatch(place)):
            yield (
                f'last_reconciled is {place!r}: write "annotation", or a field of the status such as "status.last_spec"'
            )
        yield from self._wrong_numbers(0, "a number of threads, or 0 for one for each worker", "blocking_threads")
        yield from self._wrong_numbers(0, "a number of reconciles, or 0 for none", "hot_loop_limit")
        fairness: object = self.fairness
        if fairness is not None and not isinstance(fairness, Fairness):
            yield f"fairness takes the options of fairness, but got {fairness!r}: write fairness=Fairness()"
        yield from self._wrong_retries()
        yield from self._wrong_conditions()
        reverse: object = self.delete_in_reverse
        if not isinstance(reverse, bool):
            yield f"delete_in_reverse is {reverse!r}: write True or False; the order is that of after=[...]"

    def _wrong_retries(self) -> Iterator[str]:
        for name in ("retry_limit", "finalizer_retry_limit"):
            limit = getattr(self, name)
            if limit is not None and not isinstance(limit, RetryLimit):
                yield f"{name} is {limit!r}: write {name}=RetryLimit(attempts=10)"
        if as_seconds(self.max_interval) is None:
            yield f"max_interval is {self.max_interval!r}: pass seconds, at least 0, or a timedelta"

    def _wrong_conditions(self) -> Iterator[str]:
        """Iterate over invalid conditions, and two conditions of one type."""
        for name, example in (("error_condition", "Stalled"), ("ready_condition", "Ready")):
            condition: object = getattr(self, name)
            if not isinstance(condition, str) or (condition and not CONDITION_TYPE.fullmatch(condition)):
                yield f'{name} is {condition!r}: name a condition, such as "{example}"'
        conditions = {
            "error_condition": self.error_condition,
            "ready_condition": self.ready_condition,
            "the condition of pausing": self.pause_condition,
        }
        for (option, one), (other, two) in combinations(conditions.items(), 2):
            if one and one == two:
                yield f"{option} and {other} are both {one!r}: name two conditions"

    @property
    def max_seconds(self) -> float:
        """`max_interval` in seconds."""
        return as_seconds(self.max_interval) or 0.0

    @property
    def threads(self) -> int:
        """`blocking_threads`, or its default."""
        return self.blocking_threads or self.max_concurrent_reconciles

    @property
    def pause_condition(self) -> str:
        """The type of the condition that shows pauses; empty for none."""
        return self.pausing.condition if self.pausing is not None else ""

    @property
    def sync_timeout(self) -> float:
        """`cache_sync_timeout`, or its default."""
        return _SYNC_TIMEOUT if self.cache_sync_timeout is None else self.cache_sync_timeout

    @property
    def effective_sync_policy(self) -> SyncPolicy:
        """`sync_policy`, or its default."""
        default = SyncPolicy.RETRY if self.cache_sync_timeout is None else SyncPolicy.FAIL
        return self.sync_policy or default
