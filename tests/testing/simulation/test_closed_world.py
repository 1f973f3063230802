"""A simulated operator reaches nothing outside of its simulation."""

from __future__ import annotations

import asyncio
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import envtest
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.event.request import Request
from opsdk.event.timers import TimerSource
from opsdk.testing.simulate import Simulation, World


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.server.connections += 1  # type: ignore[attr-defined]


class _OtherServer(socketserver.ThreadingTCPServer):
    """A server outside of the simulation, which counts its connections."""

    connections = 0
    daemon_threads = True


@contextmanager
def other_server() -> Iterator[_OtherServer]:
    """Run a server outside of the simulation."""
    with _OtherServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


async def create(world: World) -> None:
    """Create an object, or change it."""
    meta = ObjectMeta(name="site", namespace="default", labels={"n": str(world.rng.randrange(1000))})
    await world.client.apply(ConfigMap(metadata=meta), field_owner="user", force=True)


async def nothing(world: World) -> None:
    """Nothing to check."""


def calling(port: int, *, allowed_hosts: tuple[str, ...] = ()) -> Simulation:
    """Return the simulation of an operator that calls a server in each reconcile."""

    def make() -> Operator:
        operator = Operator("caller")

        @operator.reconciler(ConfigMap)
        async def reconcile(obj: ConfigMap, ctx: Context) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()

        return operator

    return Simulation(
        operator=make,
        environment=envtest.Environment,
        actions=[create],
        check=nothing,
        allowed_hosts=allowed_hosts,
        faults=(),
    )


def test_a_simulation_reaches_no_server_outside() -> None:
    """A random schedule must not delete in a real cloud: the run names the target, and what to do."""
    with other_server() as server:
        port = server.server_address[1]
        outcome = calling(port).run(1)
        assert server.connections == 0
    advice = "declare doubles, or --allow-host 127.0.0.1 (allowed_hosts)"
    assert outcome.violations == (f"outside: the simulation does not reach 127.0.0.1:{port}: {advice}",)


def test_a_simulation_reaches_the_hosts_that_are_allowed() -> None:
    """As `verify` does."""
    with other_server() as server:
        outcome = calling(server.server_address[1], allowed_hosts=("127.0.0.1",)).run(1)
    assert outcome.broken.isdisjoint({"outside", "crash"})
    assert server.connections > 0


def test_an_operator_that_ends_its_process_is_a_violation() -> None:
    """As in a verification: the test run goes on."""

    def make() -> Operator:
        operator = Operator("ending")

        @operator.reconciler(ConfigMap)
        async def reconcile(obj: ConfigMap, ctx: Context) -> None:
            sys.exit(3)

        return operator

    simulation = Simulation(operator=make, environment=envtest.Environment, actions=[create], check=nothing, faults=())
    outcome = simulation.run(1)
    assert "crash: the operator ended its process with status 3" in outcome.violations


def test_the_reconciles_of_a_controller_without_a_kind_are_seen() -> None:
    """They count, and faults make them slow, as those of a controller with a kind."""

    def make() -> Operator:
        operator = Operator("reporter")

        @operator.reconciler(name="report", sources=[TimerSource(60.0, [Request("default", "report")])])
        async def reconcile(request: Request) -> None:
            """Succeed."""

        return operator

    simulation = Simulation(operator=make, environment=envtest.Environment, actions=[create], check=nothing, faults=())
    assert simulation.run(1).reconciles
