"""Creates the leader election of an operator: in a thread on real event loops, else in the operator's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.api.coordination.v1 import Lease
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, StaticMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.builder.options import OperatorOptions
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.manager.leader_election.election_thread import ElectionThread
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions
from opsdk.manager.leader_election.leader_elector import LeaderElector, default_identity
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport
from opsdk.telemetry.records import TelemetryHook

# The election must not depend on discovery, which an unavailable aggregated API delays.
_LEASES = RestMapping(
    gvk=Lease.gvk, resource=GroupVersionResource("coordination.k8s.io", "v1", "leases"), namespaced=True
)
_EVENTS = RestMapping(gvk=Event.gvk, resource=GroupVersionResource("events.k8s.io", "v1", "events"), namespaced=True)


def can_use_thread(config: RestConfig) -> bool:
    """Whether a thread can run the election: not in virtual time, in a recording, or with a server in this process."""
    if config.app is not None:
        return False
    try:
        return getattr(asyncio.get_running_loop(), "wall", None) is None
    except RuntimeError:
        return True


def election_options(options: OperatorOptions, name: str, config: RestConfig) -> LeaderElectionOptions:
    """Return the options of the election of an operator with this name."""
    namespace = options.leader_election_namespace
    return LeaderElectionOptions(
        name=options.leader_election_id or name,
        namespace=namespace or config.namespace,
        namespace_source="--leader-election-namespace" if namespace else config.namespace_source,
        identity=default_identity(),
        lease_duration=options.lease_duration,
        renew_deadline=options.renew_deadline,
        retry_period=options.retry_period,
    )


class ElectionFactory:
    """Creates the election of one operator, with its own connections: other requests must not delay a renewal.

    Args:
        config: the API server with the Lease.
        options: the Lease and the times.
        scheme: the registry of kinds.
        hook: receives `Leadership` and `Requested` records, in the operator's event loop.
        explain: see `LeaderElector`.
    """

    def __init__(
        self,
        config: RestConfig,
        options: LeaderElectionOptions,
        *,
        scheme: Scheme,
        hook: TelemetryHook,
        explain: Callable[[], str] = str,
    ) -> None:
        # As in controller-runtime, so that the server's logs distinguish the two clients.
        self._config = replace(config, user_agent=f"{config.user_agent}/leader-election")
        self._options = options
        self._scheme = scheme
        self._hook = hook
        self._explain = explain

    def in_thread(self, max_stall: float | None) -> ElectionThread:
        """Return an election in a thread. Close it after the manager has ended."""
        return ElectionThread(self._new_elector, hook=self._hook, max_stall=max_stall)

    def in_loop(self) -> tuple[LeaderElector, Closing]:
        """Return an election in the operator's own loop, and its transport to close after the manager has ended."""
        connection = _Connection(self._config, self._scheme, self._options.name, self._hook)
        return self._elector(connection, self._hook), connection

    @asynccontextmanager
    async def _new_elector(self, hook: TelemetryHook) -> AsyncIterator[LeaderElector]:
        async with _Connection(self._config, self._scheme, self._options.name, hook) as connection:
            yield self._elector(connection, hook)

    def _elector(self, connection: _Connection, hook: TelemetryHook) -> LeaderElector:
        return LeaderElector(
            connection.client,
            self._options,
            hook=hook,
            explain=self._explain,
            recorder=connection.recorder,
        )

    def __repr__(self) -> str:
        return f"<ElectionFactory {self._options.namespace}/{self._options.name}>"


class _Connection(Closing):
    """The transport, client and event recorder of the election."""

    def __init__(self, config: RestConfig, scheme: Scheme, name: str, hook: TelemetryHook) -> None:
        self._transport = Transport(config, hook=hook)
        mapper = StaticMapper([_LEASES, _EVENTS])
        self.client = Client(DirectClient(self._transport, scheme=scheme, mapper=mapper))
        self.recorder = EventRecorder(self.client, name)

    async def aclose(self) -> None:
        """Write waiting Events, then close the connections. Idempotent."""
        try:
            await self.recorder.aclose(shutdown_timeout=1.0)
        finally:
            await self._transport.aclose()
