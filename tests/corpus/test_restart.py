"""A restart never takes an operator on opsdk into the past: what Sieve's 19 bugs of stale state need.

client-go lists with ``resourceVersion=0`` first, which a lagging API server answers from its cache
(https://github.com/kubernetes/kubernetes/issues/59848). A list or a streaming list of opsdk has no resource version.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import parse_qs

import msgspec
import pytest

from opsdk.engine.world.cluster import SimulatedCluster
from opsdk.engine.world.exchange import CURRENT_EXCHANGE, Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.replica import Observer
from opsdk.engine.world.runner import WorldRunner
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JsonObject
from tests.corpus.case import CorpusCase
from tests.corpus.sieve.cases import CASES

STALE = [case for case in CASES if case.pattern == "stale state"]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class RestartingRun:
    """Runs a workload. The operator crashes after each of its writes.

    Attributes:
        observer: has all requests.
        crashes: process, and the revision of its last write.
        views: process, path, and the revision of its first view of a kind.
    """

    def __init__(self, case: CorpusCase) -> None:
        self.case = case
        self.observer = Observer(decide=self.decide, hold=self.hold)
        self.crashes: dict[str, int] = {}
        self.views: dict[tuple[str, str], int] = {}

    async def decide(self, exchange: Exchange) -> Fault | None:
        """Crash after each write, but not forever: some operators need two writes in one pass."""
        return Fault.CRASH_AFTER_WRITE if exchange.changes_state and len(self.crashes) < 8 else None

    async def hold(self, exchange: Exchange, body: bytes) -> bool:
        """Note the revision at which a first view is complete."""
        for line in body.splitlines():
            meta: JsonObject = msgspec.json.decode(line)["object"].get("metadata") or {}
            if INITIAL_EVENTS_END in (meta.get("annotations") or {}):
                self.views.setdefault((exchange.client, exchange.path), int(meta["resourceVersion"]))
        return True

    def on_entry(self, entry: Entry) -> None:
        """Note the revision of the write that a process ends with."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is not None and exchange.fault == Fault.CRASH_AFTER_WRITE.value:
            self.crashes[exchange.client] = entry.revision

    async def play(self) -> None:
        """Take the actions of the case, with time for restarts after each."""
        declared = replace(self.case.simulation(), replicas=1)
        async with SimulatedCluster(declared, self.observer) as cluster:
            cluster.world(0).env.journal.subscribe(self.on_entry)
            for action in self.case.actions:
                await cluster.act(action, 0)
                await asyncio.sleep(300)


def start_of(client: str) -> int:
    """Return how often the replica had started, from the name of the process."""
    return int(client.rpartition(".")[2])


@pytest.mark.parametrize("case", [STALE[0], STALE[5], STALE[-1]], ids=lambda case: case.name)
def test_a_restart_never_shows_the_past(case: CorpusCase) -> None:
    """The first view of each kind has the last write of the process before; no read asks for an old state."""
    run = RestartingRun(case)
    WorldRunner[None](seed=0).run(run.play())
    assert len(run.crashes) > 2
    for crashed, last_write in run.crashes.items():
        later = [revision for (client, _), revision in run.views.items() if start_of(client) > start_of(crashed)]
        assert later
        assert min(later) >= last_write
    reads = [each for each in run.observer.exchanges if not each.is_write and not each.is_lease]
    assert all(is_fresh(each.target, is_watch=each.is_watch) for each in reads)
    assert any("sendInitialEvents=true" in each.target for each in reads)


def is_fresh(target: str, *, is_watch: bool) -> bool:
    """Whether a list or a streaming list has no resource version, and another watch begins at that of its list.

    A streaming list without a resource version is a consistent read: KEP 3157.
    """
    query = parse_qs(target.partition("?")[2])
    version = query.get("resourceVersion", [""])[0]
    if is_watch and "sendInitialEvents" not in query:
        return version not in ("", "0")
    return version == "" and (is_watch or "resourceVersionMatch" not in query)


def test_reads_of_the_past_would_be_recognized() -> None:
    """As client-go's first list, and a watch from any state."""
    assert not is_fresh("/api/v1/pods?resourceVersion=0", is_watch=False)
    assert not is_fresh("/api/v1/pods?watch=true&resourceVersion=0", is_watch=True)
    assert not is_fresh("/api/v1/pods?resourceVersion=5&resourceVersionMatch=NotOlderThan", is_watch=False)
    assert is_fresh("/api/v1/pods?watch=true&resourceVersion=5", is_watch=True)
