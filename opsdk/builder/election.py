"""Makes the leader election of an operator: in a thread on ordinary event loops, else in the operator's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.closing import Closing
from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, StaticMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.leader_election.election_thread import ElectionThread
from opsdk.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.leader_election.leader_elector import LeaderElector
from opsdk.rest.config import Config
from opsdk.rest.transport import Transport
from opsdk.telemetry.records import TelemetryHook

# The election must not depend on discovery, which an unavailable aggregated API would delay.
_LEASES = RestMapping(
    gvk=Lease.gvk, resource=GroupVersionResource("coordination.k8s.io", "v1", "leases"), namespaced=True
)


def can_use_thread(config: Config, clock: Clock) -> bool:
    """Whether the election can run in a thread: not in virtual time, and not with a server in this process."""
    if config.app is not None or clock is not LOOP_CLOCK:
        return False
    try:
        return getattr(asyncio.get_running_loop(), "wall", None) is None
    except RuntimeError:
        return True


class ElectionFactory:
    """Makes the election of one operator, with connections of its own: other requests must not delay a renewal.

    Args:
        config: the API server with the Lease.
        options: the Lease and the times.
        scheme: the registry of kinds.
        hook: receives `Leadership` records, in the operator's event loop.
        explain: see `LeaderElector`.
    """

    def __init__(
        self,
        config: Config,
        options: LeaderElectionOptions,
        *,
        scheme: Scheme,
        hook: TelemetryHook,
        explain: Callable[[], str] = str,
    ) -> None:
        # As in controller-runtime, so that the server's logs tell the two apart.
        self._config = replace(config, user_agent=f"{config.user_agent}/leader-election")
        self._options = options
        self._scheme = scheme
        self._hook = hook
        self._explain = explain

    def in_thread(self, max_stall: float | None) -> ElectionThread:
        """Return an election in a thread. Close it after the manager has ended."""
        return ElectionThread(self._make, hook=self._hook, max_stall=max_stall)

    def in_loop(self, clock: Clock) -> tuple[LeaderElector, Closing]:
        """Return an election in the operator's own loop, and its transport to close after the manager has ended."""
        transport = Transport(self._config, clock=clock)
        return self._elector(transport, clock, self._hook), transport

    @asynccontextmanager
    async def _make(self, hook: TelemetryHook) -> AsyncIterator[LeaderElector]:
        async with Transport(self._config) as transport:
            yield self._elector(transport, LOOP_CLOCK, hook)

    def _elector(self, transport: Transport, clock: Clock, hook: TelemetryHook) -> LeaderElector:
        direct = DirectClient(transport, scheme=self._scheme, mapper=StaticMapper([_LEASES]))
        return LeaderElector(Client(direct), self._options, clock=clock, hook=hook, explain=self._explain)

    def __repr__(self) -> str:
        return f"<ElectionFactory {self._options.namespace}/{self._options.name}>"
