"""The state of an operator as its debug pages show it, from one or two samples. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from opsdk.cli.top.untrusted import clean, counts, mapping, mappings, number, read

PAGES = (
    "process",
    "leadership",
    "controllers",
    "queues",
    "running",
    "retries",
    "errors",
    "slowest",
    "informers",
    "fleet",
    "shards",
    "pauses",
    "recording",
)
"""The pages that the console reads. Those of fleets, pauses and recordings may be missing."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The pages at one moment.

    Attributes:
        taken_at: when they were read, in seconds of the console's clock.
        pages: the decoded JSON of each page that the operator serves.
    """

    taken_at: float
    pages: Mapping[str, object] = msgspec.field(default_factory=dict)


class KeyedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row about one object."""

    controller: str = ""
    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """The ready requests of one priority and flow."""

    priority: int = 0
    flow: str = ""
    ready: int = 0


class ControllerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One controller; see the pages ``controllers`` and ``queues``.

    Attributes:
        rate: reconciles in a second since the sample before; None without one.
        error_rate: failed reconciles in a second.
    """

    controller: str = ""
    cluster: str = ""
    kind: str = ""
    state: str = ""
    standby: bool = False
    paused: str = ""
    ready: int = 0
    delayed: int = 0
    oldest_ready_seconds: float = 0.0
    retrying: int = 0
    fair: bool = False
    more_flows: int = 0
    problems: tuple[str, ...] = ()
    failing_functions: tuple[str, ...] = ()
    hot_loops: tuple[str, ...] = ()
    flows: tuple[FlowRow, ...] = ()
    ready_by_priority: dict[str, int] = msgspec.field(default_factory=dict)
    active: int = 0
    limit: int = 0
    reconciles: int = 0
    failed: int = 0
    rate: float | None = None
    error_rate: float | None = None
    last_error: str = ""
    seconds_since_last_error: float | None = None


class RunningRow(KeyedRow, frozen=True, kw_only=True):
    """A reconcile that runs."""

    seconds: float = 0.0
    attempt: int = 0
    place: str = ""
    waits_for: str = ""
    stack: tuple[str, ...] = ()


class RetryRow(KeyedRow, frozen=True, kw_only=True):
    """A request that failed and waits."""

    attempts: int = 0
    due_seconds: float = 0.0
    priority: int = 0
    error: str = ""
    causes: tuple[str, ...] = ()


class ErrorRow(KeyedRow, frozen=True, kw_only=True):
    """The last error of a key."""

    seconds_ago: float = 0.0
    errors: int = 0
    attempt: int = 0
    recovered: bool = False
    detail: str = ""
    reconcile_id: str = ""


class SlowKeyRow(KeyedRow, frozen=True, kw_only=True):
    """A key and the time that its reconciles took."""

    reconciles: int = 0
    errors: int = 0
    seconds: float = 0.0
    max_seconds: float = 0.0
    max_waited: float = 0.0
    requests: int = 0
    last_result: str = ""


class CacheRow(msgspec.Struct, frozen=True, kw_only=True):
    """An informer.

    Attributes:
        event_rate: watch events in a second since the sample before; None without one.
    """

    name: str = ""
    cluster: str = ""
    state: str = ""
    ready: bool = False
    seconds_since_contact: float | None = None
    seconds_without_watch: float = 0.0
    objects: int = 0
    size: int = 0
    lists: int = 0
    events: int = 0
    errors: int = 0
    undecodable: int = 0
    last_error: str = ""
    failing_functions: tuple[str, ...] = ()
    event_rate: float | None = None


class LeadershipRow(msgspec.Struct, frozen=True, kw_only=True):
    """The leader election of the replica."""

    state: str = ""
    election: bool = False
    leading: bool = False
    leading_seconds: float | None = None
    lease: str = ""
    identity: str = ""
    holder: str = ""
    expires_seconds: float | None = None


class ShardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A shard of a fleet, with the state of its cluster on this replica."""

    shard: str = ""
    state: str = ""
    holder: str = ""
    member: str = ""
    reachable: bool = True
    confirmed_seconds: float | None = None
    owned_seconds: float | None = None
    reason: str = ""
    message: str = ""


class RecordingRow(msgspec.Struct, frozen=True, kw_only=True):
    """The flight recorder; without a directory, there is no recording."""

    directory: str = ""
    seconds: float = 0.0
    size: int = 0
    skipped: int = 0
    problem: str = ""


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    """The process of the operator."""

    operator: str = ""
    host: str = ""
    pid: int = 0
    opsdk: str = ""
    python: str = ""
    rss_bytes: int = 0


class TopState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the console shows.

    Attributes:
        restarted: the process is another one than at the sample before.
        pause_config_map: namespace and name of the ConfigMap that pauses controllers; empty without one.
        missing: pages that an operator of this version serves, and this one does not.
    """

    process: ProcessRow = ProcessRow()
    restarted: bool = False
    leadership: LeadershipRow = LeadershipRow()
    controllers: tuple[ControllerSummary, ...] = ()
    running: tuple[RunningRow, ...] = ()
    retries: tuple[RetryRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    slowest: tuple[SlowKeyRow, ...] = ()
    caches: tuple[CacheRow, ...] = ()
    shards: tuple[ShardRow, ...] = ()
    recording: RecordingRow = RecordingRow()
    pause_config_map: str = ""
    missing: tuple[str, ...] = ()


_OPTIONAL = frozenset({"fleet", "shards", "pauses", "recording", "errors", "slowest"})


def top_state(sample: Sample, before: Sample | None = None) -> TopState:
    """Return the state of a sample.

    Args:
        sample: the newest pages.
        before: earlier pages of the same operator, for rates.
    """
    pages = sample.pages
    process = read(ProcessRow, mapping(pages.get("process")))
    earlier = read(ProcessRow, mapping(before.pages.get("process"))) if before is not None else process
    restarted = (process.host, process.pid) != (earlier.host, earlier.pid)
    seconds = sample.taken_at - before.taken_at if before is not None and not restarted else 0.0
    previous = before.pages if before is not None and seconds > 0 else {}
    pause = next(mappings(pages.get("pauses")), {})
    config_map = clean(pause.get("config_map"))
    return TopState(
        process=process,
        restarted=restarted,
        leadership=_leadership(mapping(pages.get("leadership"))),
        controllers=_controllers(pages, previous, seconds),
        running=tuple(read(RunningRow, row) for row in mappings(pages.get("running"))),
        retries=tuple(read(RetryRow, row) for row in mappings(pages.get("retries"))),
        errors=tuple(read(ErrorRow, row) for row in mappings(pages.get("errors"))),
        slowest=tuple(read(SlowKeyRow, row) for row in mappings(pages.get("slowest"))),
        caches=_caches(pages.get("informers"), previous.get("informers"), seconds),
        shards=_shards(pages),
        recording=read(RecordingRow, mapping(pages.get("recording"))),
        pause_config_map=f"{clean(pause.get('namespace'))}/{config_map}" if config_map else "",
        missing=tuple(page for page in PAGES if page not in pages and page not in _OPTIONAL),
    )


def _leadership(row: Mapping[str, Any]) -> LeadershipRow:
    lease = mapping(row.get("lease"))
    values = {name: clean(lease.get(name)) for name in ("identity", "holder")}
    name = clean(lease.get("name"))
    return read(
        LeadershipRow,
        row,
        **values,
        lease=f"{clean(lease.get('namespace'))}/{name}" if name else "",
        expires_seconds=number(lease.get("expires_seconds")),
    )


# -------------------------------------------------------------- controllers
def _controllers(
    pages: Mapping[str, object], previous: Mapping[str, object], seconds: float
) -> tuple[ControllerSummary, ...]:
    """Return the rows of both pages about controllers. A controller may be on one of them only."""
    queues = {clean(row.get("controller")): row for row in mappings(pages.get("queues"))}
    earlier = {clean(row.get("controller")): row for row in mappings(previous.get("queues"))}
    rows = {clean(row.get("controller")): row for row in mappings(pages.get("controllers"))}
    return tuple(
        _controller(rows.get(name, {}), queues.get(name, {}), earlier.get(name), seconds)
        for name in dict.fromkeys([*rows, *queues])
    )


def _controller(
    row: Mapping[str, Any], queue: Mapping[str, Any], earlier: Mapping[str, Any] | None, seconds: float
) -> ControllerSummary:
    total, failed = _reconciles(queue)
    rate = error_rate = None
    if earlier is not None:
        total_before, failed_before = _reconciles(earlier)
        rate, error_rate = _rate(total, total_before, seconds), _rate(failed, failed_before, seconds)
    workers = mapping(row.get("workers") or queue.get("workers"))
    return read(
        ControllerSummary,
        {**queue, **row},
        flows=tuple(read(FlowRow, flow) for flow in mappings(row.get("flows"))),
        ready_by_priority=counts(queue.get("ready_by_priority")),
        active=int(number(workers.get("active")) or 0),
        limit=int(number(workers.get("limit")) or 0),
        reconciles=total,
        failed=failed,
        rate=rate,
        error_rate=error_rate,
    )


def _reconciles(queue: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of reconciles and of failed ones."""
    results = counts(queue.get("reconciles"))
    return sum(results.values()), results.get("error", 0)


def _rate(now: int, before: int, seconds: float) -> float | None:
    """Return the increase in a second; None for a counter that began again, and without time in between."""
    return (now - before) / seconds if seconds > 0 and now >= before else None


# -------------------------------------------------------------- caches and shards
def _caches(page: object, previous: object, seconds: float) -> tuple[CacheRow, ...]:
    earlier = {(clean(row.get("cluster")), clean(row.get("name"))): row for row in mappings(previous)}
    caches = []
    for row in mappings(page):
        cache = read(CacheRow, row)
        before = earlier.get((cache.cluster, cache.name))
        events = number(before.get("events")) if before is not None else None
        rate = _rate(cache.events, int(events), seconds) if events is not None else None
        caches.append(msgspec.structs.replace(cache, event_rate=rate))
    return tuple(caches)


def _shards(pages: Mapping[str, object]) -> tuple[ShardRow, ...]:
    """Return the shards with the reason and message of their clusters."""
    clusters = {clean(row.get("cluster")): row for row in mappings(pages.get("fleet"))}
    shards = {clean(row.get("shard")): row for row in mappings(pages.get("shards"))}
    return tuple(
        read(
            ShardRow,
            {**clusters.get(name, {}), **shards.get(name, {})},
            shard=name,
        )
        for name in sorted(shards.keys() | clusters.keys())
    )
