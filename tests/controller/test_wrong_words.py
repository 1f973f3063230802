"""The words of retries, errors, daemons, blocking functions, changes, ordered children and pauses, with wrong values.

Each is refused where it is written, with file and line, and the message says what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from boxes import Box

from opsdk import (
    Context,
    ControllerOptions,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
    Result,
    RetryLimit,
    TemporaryError,
    UsageError,
)
from opsdk.aio.backoff import Backoff
from opsdk.aio.blocking import blocking
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.children.ordering import Child
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.pausing import Pausing
from opsdk.event.timers import CronSource, PollSource, TimerSource
from opsdk.lifecycle.options import GenericControllerOptions
from opsdk.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
)

Write = Callable[[], object]


def wrong(value: object) -> Any:
    """Return a value that a type checker would refuse."""
    return value


async def monitor(obj: Box, ctx: Context) -> None:
    """Do nothing."""


def a_map() -> ConfigMap:
    """Return a child."""
    return ConfigMap(metadata=ObjectMeta(name="a"))


def options(**words: Any) -> Write:
    """Return what writes the options of a controller."""
    return lambda: ControllerOptions(**words)


def handlers(**words: Any) -> Write:
    """Return what writes the options of named handlers."""
    return lambda: GenericControllerOptions(**words)


def daemon(**words: Any) -> Write:
    """Return what writes a daemon."""
    return lambda: DaemonSpec(**{"function": monitor, **words})


def reconciler(kind: Any = None, **words: Any) -> Write:
    """Return what declares a reconciler with options."""
    name = {} if kind is not None else {"name": "kindless"}
    return lambda: Operator("words").reconciler(kind, **wrong({"options": ControllerOptions(**words), **name}))


RETRIES: list[tuple[Write, str]] = [
    (RetryLimit, r"RetryLimit\(\) limits nothing: pass attempts=... or time=..."),
    (lambda: RetryLimit(attempts=0), "attempts is 0: pass a number of attempts, at least 1"),
    (lambda: RetryLimit(attempts=True), "attempts is True: pass a number of attempts"),
    (lambda: RetryLimit(attempts=wrong("3")), "attempts is '3': pass a number of attempts"),
    (lambda: RetryLimit(time=0), "time is 0: pass more than 0 seconds, or a timedelta"),
    (lambda: RetryLimit(time=wrong("1h")), "time is '1h': pass more than 0 seconds"),
    (options(retry_limit=3), r"retry_limit is 3: write retry_limit=RetryLimit\(attempts=10\)"),
    (options(finalizer_retry_limit=3), "finalizer_retry_limit is 3: write finalizer_retry_limit=RetryLimit"),
    (options(max_interval=-1), "max_interval is -1: pass seconds, at least 0, or a timedelta"),
    (options(max_interval="1h"), "max_interval is '1h': pass seconds"),
    (options(reconciliation_timeout=-1), "reconciliation_timeout is -1: pass a number of seconds"),
    (options(reconciliation_timeout=timedelta(1)), r"reconciliation_timeout is datetime.* pass a number of seconds"),
    (options(shutdown_timeout="3"), "shutdown_timeout is '3': pass a number of seconds"),
    (options(cache_sync_timeout=-1), "cache_sync_timeout is -1: pass a number of seconds"),
    (options(sync_policy="retry"), "sync_policy is 'retry': pass a member of opsdk.event.sources.SyncPolicy"),
    (options(rate_limiter=5), "rate_limiter is 5: pass an instance of a class of opsdk.queue.rate_limiters"),
    (options(rate_limiter=ItemExponentialFailureRateLimiter), "rate_limiter is <class .* pass an instance"),
    (options(max_concurrent_reconciles="2"), "max_concurrent_reconciles is '2': pass a number of workers, at least 1"),
    (options(enable_warmup=3), "enable_warmup is 3: pass True or False"),
    (options(needs_leader_election="no"), "needs_leader_election is 'no': pass True or False"),
    (options(ignore_own_status_writes="no"), "ignore_own_status_writes is 'no': pass True or False"),
    (options(hot_loop_limit=-1), "hot_loop_limit is -1: pass a number of reconciles, or 0 for none"),
    (lambda: ItemExponentialFailureRateLimiter(base=10, cap=2), "need 0 < base <= cap, not base=10 and cap=2"),
    (lambda: ItemExponentialFailureRateLimiter(base=wrong("1")), "need 0 < base <= cap, not base='1'"),
    (lambda: ItemFastSlowRateLimiter(fast=-1, slow=1, fast_attempts=3), "need numbers of at least 0, not fast=-1"),
    (lambda: BucketRateLimiter(qps=0), "need qps > 0 and burst >= 1, not qps=0"),
    (lambda: MaxOfRateLimiter([]), r"limiters is \[\]: pass a list of rate limiters"),
    (lambda: Result(requeue_after=-1), "requeue_after is -1: pass seconds, at least 0"),
]
ERRORS: list[tuple[Write, str]] = [
    (options(error_condition="not ok"), "error_condition is 'not ok': name a condition, such as \"Stalled\""),
    (options(error_condition=True), "error_condition is True: name a condition"),
    (options(error_condition="Ready", ready_condition="Ready"), "are both 'Ready': name two conditions"),
    (
        reconciler(Secret, error_condition="Stalled"),
        "error_condition='Stalled' needs conditions in the status of Secret",
    ),
    (reconciler(error_condition="Stalled"), "error_condition needs a reconciled kind, whose status has the condition"),
]
DAEMONS: list[tuple[Write, str]] = [
    (daemon(function=3), "the function of a daemon is 3: pass `async def monitor"),
    (daemon(function=DaemonSpec), "the function of a daemon is <class .*: pass `async def monitor"),
    (daemon(when=3), "when is 3: pass a plain function"),
    (daemon(when=monitor), "when is <function monitor .*: pass a plain function"),
    (daemon(every=0), "every is 0: pass more than 0 seconds, or a timedelta"),
    (daemon(every="1h"), "every is '1h': pass more than 0 seconds"),
    (daemon(jitter=-1, every=3), "jitter is -1: pass a share of `every`"),
    (daemon(jitter=0.1), "jitter needs every=..., the interval that it changes"),
    (daemon(backoff=3), r"backoff is 3: pass opsdk.aio.backoff.Backoff\("),
    (daemon(backoff=Backoff(base=-1)), r"backoff is Backoff\(base=-1.* in seconds above 0"),
    (daemon(stop_timeout=0), "stop_timeout is 0: pass more than 0 seconds"),
    (daemon(threads=4), "threads is for plain functions, and monitor is async"),
    (daemon(threads="4"), "threads is '4': pass a number of threads, or 0 for 100"),
    (daemon(name=3), "name is 3: pass text"),
    (lambda: Operator("x").daemon(wrong(3))(monitor), r"daemon\(...\) takes a kind, but got 3"),
    (lambda: Operator("x").daemon(Box, options=wrong(3))(monitor), "options takes the controller's options, but got 3"),
    (lambda: Operator("x").daemon(Box, name=wrong(3))(monitor), "name takes the name of the controller, but got 3"),
    (lambda: Operator("x").daemon(Box)(wrong(3)), "the function of a daemon is 3"),
    (lambda: CronSource("x y", [Request("a", "b")]), "'x y' is not a cron schedule .*: write five fields"),
    (
        lambda: CronSource("30 2 * * *", [Request("a", "b")], timezone="Mars/X"),
        "timezone is 'Mars/X': pass an IANA name",
    ),
    (lambda: TimerSource(0, [Request("a", "b")]), "the interval of timer is 0: pass more than 0 seconds"),
    (lambda: PollSource(wrong(dict), 3), "is not async: declare it with `async def`"),
]
BLOCKING: list[tuple[Write, str]] = [
    (options(blocking_threads=-1), "blocking_threads is -1: pass a number of threads, or 0 for one for each worker"),
    (options(blocking_threads=True), "blocking_threads is True: pass a number of threads"),
    (lambda: blocking(threads=0), "threads is 0: pass a number of threads, at least 1"),
    (lambda: blocking(monitor), "blocking got <function monitor .*: it takes a plain function"),
    (lambda: blocking(Box), "blocking got <class .*: it takes a plain function, neither a class nor an async one"),
    (lambda: blocking(wrong(3)), "blocking got 3: decorate a plain function with @blocking"),
]
CHANGES: list[tuple[Write, str]] = [
    (options(last_reconciled=True), 'last_reconciled is True: write "annotation", or a field of the status'),
    (options(last_reconciled="spec"), "last_reconciled is 'spec': write \"annotation\""),
    (
        reconciler(Secret, last_reconciled="annotation"),
        "last_reconciled='annotation' needs a spec, and Secret has none",
    ),
    (reconciler(Box, last_reconciled="status.last"), "the status of Box has no 'last'"),
    (reconciler(last_reconciled="annotation"), "last_reconciled needs a reconciled kind, whose spec is kept"),
]
CHILDREN: list[tuple[Write, str]] = [
    (options(ready_condition=3), 'ready_condition is 3: name a condition, such as "Ready"'),
    (options(delete_in_reverse="yes"), "delete_in_reverse is 'yes': write True or False"),
    (reconciler(Secret, ready_condition="Ready"), "ready_condition='Ready' needs conditions in the status of Secret"),
    (reconciler(ready_condition="Ready"), "ready_condition needs a reconciled kind"),
    (reconciler(Box, delete_in_reverse=True), r"delete_in_reverse needs a reconciled kind and owns=\[...\]"),
    (lambda: Child(3), "3 is not a child: pass an object"),
    (lambda: Child(Child(a_map())), "<Child ConfigMap a> is a Child already: pass its object"),
    (lambda: Child(a_map(), after=wrong(a_map())), r"write a list of children, after=\[...\]"),
    (lambda: Child(a_map(), after=[3]), "3 is not a child: pass an object"),
    (lambda: Child(a_map(), ready=wrong(3)), "ready of ConfigMap a is 3: write True, a CEL expression, or a function"),
    (lambda: Child(a_map(), ready=wrong(monitor)), "the ready function of ConfigMap a is async"),
]
PAUSES: list[tuple[Write, str]] = [
    (lambda: Pausing(condition="not ok"), "condition of Pausing takes the type of a condition, but got 'not ok'"),
    (lambda: Pausing(hold_deletions=wrong("yes")), "hold_deletions of Pausing takes True or False, but got 'yes'"),
    (lambda: OperatorOptions(pause_config_map="Not OK"), "pause_config_map is 'Not OK': pass the name of a ConfigMap"),
    (options(pausing=True), r"pausing takes the options of pauses, but got True: write pausing=Pausing\(...\)"),
    (options(pausing=Pausing(condition="Ready"), ready_condition="Ready"), "are both 'Ready': name two conditions"),
    (reconciler(Secret, pausing=Pausing(condition="Paused")), "condition='Paused' needs conditions in the status"),
    (reconciler(pausing=Pausing(condition="Paused")), "the condition of pausing needs a reconciled kind"),
    (handlers(pausing="yes"), "pausing takes the options of pauses, but got 'yes'"),
    (handlers(workers=0), "workers is 0: pass a number of workers, at least 1"),
    (handlers(retry="all"), "retry is 'all': pass RetryPolicy.FAILED or RetryPolicy.ALL"),
    (handlers(resync=-1), "resync is -1: pass a number of seconds, at least 0"),
]
WORDS = [*RETRIES, *ERRORS, *DAEMONS, *BLOCKING, *CHANGES, *CHILDREN, *PAUSES]


@pytest.mark.parametrize(("write", "message"), WORDS, ids=[message for _, message in WORDS])
def test_a_wrong_word_is_refused_where_it_is_written(write: Write, message: str) -> None:
    """A wrong value, a wrong type, and two words that exclude each other: `UsageError` with file and line."""
    with pytest.raises(UsageError, match=rf"(?s){__file__}:\d+: .*{message}"):
        write()


def test_default_options_are_checked_at_the_declaration() -> None:
    """The options of the operator are those of a reconciler without its own."""
    operator = Operator("words", OperatorOptions(controller=ControllerOptions(error_condition="Stalled")))
    operator.reconciler(Box)
    with pytest.raises(UsageError, match=rf"{__file__}:\d+: error_condition='Stalled' needs conditions"):
        operator.reconciler(Secret)


@pytest.mark.parametrize("delay", [-1, "1h", True])
def test_a_wrong_delay_is_refused(delay: Any) -> None:
    """A reconciler raises it: the traceback in the log has the place."""
    with pytest.raises(UsageError, match=f"delay is {delay!r}: pass seconds, at least 0, or a timedelta"):
        TemporaryError("not yet", delay=delay)
