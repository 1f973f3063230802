"""Invariants that hold for every operator, from the requests of its replicas. Pure, apart from the running ledger."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opsdk.engine.world.exchange import Exchange

_HOT_WRITES = 20
_HOT_SECONDS = 10.0
"""Seconds in which `_HOT_WRITES` equal, successful writes of one client are a hot loop."""
_BUDGET_WRITES = 100
_BUDGET_SECONDS = 60.0
"""Seconds in which `_BUDGET_WRITES` successful writes of one client to one object end a run."""
_HOT_REQUESTS = 5.0
"""Requests per second in a calm period above which they are a hot loop."""


@dataclass
class LeaseLedger:
    """The holders of each Lease, according to the writes that the server accepted.

    Attributes:
        holders: the client that holds the Lease at a path; empty after its release.
        violations: writes by replicas without leadership.
    """

    holders: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def accepted(self, exchange: Exchange) -> None:
        """Update the holder after a response of the server."""
        if not exchange.is_lease or not exchange.is_write or not exchange.succeeded:
            return
        try:
            lease = json.loads(exchange.body)
        except ValueError:
            return
        name = (lease.get("metadata") or {}).get("name", "")
        holder = (lease.get("spec") or {}).get("holderIdentity", "")
        self.holders[name] = exchange.client if holder else ""

    def sent(self, exchange: Exchange) -> None:
        """Check a request at the time when its client sends it."""
        if not exchange.changes_state:
            return
        for name, holder in self.holders.items():
            if holder and holder != exchange.client:
                self.violations.append(
                    f"leadership: {exchange.client} sent {exchange.method} {exchange.path} at {exchange.time:.3f} s "
                    f"while {holder} held the lease {name}"
                )


@dataclass
class WriteBudget:
    """Counts the successful writes of one client to one path in a window of virtual time.

    A reconciler whose own status write leads to the next one writes forever, and such a run would take hours. The
    equal writes of `hot_loops` are found at the end of a run; these are found at once, and may differ.
    """

    _times: dict[tuple[str, str, str], deque[float]] = field(default_factory=dict)

    def written(self, exchange: Exchange) -> str | None:
        """Record a response. Returns the violation at the first write above the budget."""
        if exchange.method == "POST" or not exchange.changes_state or not exchange.succeeded:
            return None
        times = self._times.setdefault((exchange.client, exchange.method, exchange.path), deque())
        times.append(exchange.time)
        while times[0] < exchange.time - _BUDGET_SECONDS:
            times.popleft()
        if len(times) != _BUDGET_WRITES:
            return None
        return (
            f"hot loop: {exchange.client} wrote {exchange.method} {exchange.path} {_BUDGET_WRITES} times in "
            f"{exchange.time - times[0]:.1f} s: each reconcile changes the object again"
        )


def hot_loops(exchanges: Iterable[Exchange]) -> list[str]:
    """Return the equal writes that one client repeated too often."""
    recent: dict[tuple[str, str, str, bytes], deque[float]] = defaultdict(deque)
    problems: dict[str, None] = {}
    for exchange in exchanges:
        if not exchange.changes_state or not exchange.succeeded:
            continue
        times = recent[exchange.client, exchange.method, exchange.path, exchange.body]
        times.append(exchange.time)
        while times[0] < exchange.time - _HOT_SECONDS:
            times.popleft()
        if len(times) >= _HOT_WRITES:
            problems[f"hot loop: {exchange.client} repeats {exchange.method} {exchange.path}"] = None
    return list(problems)


def _is_unrest(exchange: Exchange) -> bool:
    """Whether a request at rest is a write that may change an object. A deletion of an absent object never does."""
    return exchange.changes_state and (exchange.method, exchange.status) != ("DELETE", 404)


def restart_violations(exchanges: Iterable[Exchange]) -> list[str]:
    """Return the writes of replicas that were restarted when every object had what it needs."""
    problems = [
        f"restart: {e.client} sent {e.method} {e.path} after a restart: each reconcile changes the object again"
        for e in exchanges
        if _is_unrest(e)
    ]
    return problems[:5]


def calm_violations(exchanges: Sequence[Exchange], seconds: float) -> list[str]:
    """Return the violations in a calm period of some seconds: writes, and too many requests."""
    problems = [
        f"calm: {e.client} sent {e.method} {e.path} at {e.time:.3f} s, when nothing had changed for a while"
        for e in exchanges
        if _is_unrest(e)
    ]
    reads = [e for e in exchanges if not e.is_write]
    if len(reads) > _HOT_REQUESTS * seconds:
        problems.append(f"hot loop: {len(reads)} reads in {seconds:g} calm seconds, such as {reads[-1].path}")
    return problems[:5]
