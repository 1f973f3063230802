"""Runs an operator around a block of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from opsdk.aio.virtual_loop import HotLoopError
from opsdk.apimachinery.crd import crds_for
from opsdk.builder.operator import Operator
from opsdk.cluster.cluster import Cluster
from opsdk.engine.policies import apply_policies
from opsdk.errors import NoMatchError
from opsdk.rest.config import RestConfig
from opsdk.telemetry.records import HotLoopFound, Record, TelemetryHook
from opsdk.testing.definitions import install_definitions
from opsdk.testing.webhooks import install_configurations, with_local_webhooks
from opsdk.webhook.options import WebhookServerOptions

__all__ = ["OperatorTimeoutError", "running"]

_FIELD_OWNER = "opsdk-policies"
_FIRST_POLL = 0.01
_LAST_POLL = 1.0
"""Maximum seconds between readiness checks: the pause doubles from the first to the last value."""


class HasConfig(Protocol):
    """An object with a client configuration, such as `envtest.environment.Environment`."""

    @property
    def config(self) -> RestConfig:
        """The configuration of clients."""
        ...


class OperatorTimeoutError(AssertionError):
    """The operator was not ready in time, or did not stop in time."""


@asynccontextmanager
async def running(
    operator: Operator,
    cluster: RestConfig | HasConfig,
    *,
    definitions: bool = True,
    ready_within: float = 60.0,
    stop_within: float = 60.0,
    hot_loops: bool = False,
) -> AsyncIterator[Operator]:
    """Run an operator while the block runs. The block begins when the readiness checks pass: the caches are synced.

    Without leader election the controllers run by then. With it, the operator may still be a standby replica.

    An error that ends the operator cancels the block and is raised from it. At the end the operator is stopped, as by
    SIGTERM.

    An operator without webhook options serves its webhooks on the loopback interface, and the
    server calls them. Its admission policies are applied.

    Args:
        operator: a new operator; an operator starts once.
        cluster: the configuration of clients, or something with a ``config``.
        definitions: install the CustomResourceDefinitions of the classes that the operator reconciles, unless the
            server already serves them.
        ready_within: seconds until the operator must be ready.
        stop_within: seconds until the operator must have ended after the block.
        hot_loops: allow requests that keep reconciling themselves, see `opsdk.controller.steps.hot_loops`.

    Raises:
        OperatorTimeoutError: one of the two time limits has passed.
        HotLoopError: a request kept reconciling itself. The block is cancelled.
    """
    config = cluster if isinstance(cluster, RestConfig) else cluster.config
    block = asyncio.current_task()
    assert block is not None
    await _install(operator, config, definitions=definitions)
    interrupter = _Interrupter(block)
    started = operator.start(config, hooks=[] if hot_loops else [interrupter])
    work = asyncio.get_running_loop().create_task(started, name=f"operator {operator.name}")
    work.add_done_callback(interrupter.on_end)
    try:
        await _wait_ready(operator, work, ready_within)
        yield operator
    except asyncio.CancelledError:
        if not interrupter.interrupted or block.uncancel() > 0:
            raise
    except BaseException as error:
        if work.done() and not work.cancelled() and (failure := work.exception()) is not None:
            error.add_note(f"{operator!r} had failed: {failure!r}")
        raise
    finally:
        work.remove_done_callback(interrupter.on_end)
        await _stop(operator, work, stop_within)
    # Only a failed operator or a hot loop cancels the block without leaving it by an exception.
    if interrupter.hot_loop is not None:
        raise HotLoopError(interrupter.hot_loop)
    work.result()


class _Interrupter(TelemetryHook):
    """Cancels the block of a test when the operator fails, or a request reconciles itself repeatedly."""

    def __init__(self, block: asyncio.Task[Any]) -> None:
        self._block = block
        self.interrupted = False
        self.hot_loop: str | None = None

    def on_end(self, ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and ended.exception() is not None:
            self._interrupt()

    def record(self, record: Record) -> None:
        if isinstance(record, HotLoopFound):
            self.hot_loop = f"hot loop: controller {record.controller}: {record.request} {record.description}"
            self._interrupt()

    def _interrupt(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._block.cancel()


async def _install(operator: Operator, config: RestConfig, *, definitions: bool) -> None:
    """Install what the server lacks for the operator: definitions, webhook configurations and policies."""
    local = operator.has_webhooks and operator.options.webhook == WebhookServerOptions()
    lacks_definitions = definitions and operator.custom_kinds()
    if not (local or lacks_definitions or operator.policies):
        return
    async with Cluster(config) as cluster:
        if local:
            operator.options = with_local_webhooks(operator, namespace=config.namespace)
            await install_definitions(cluster.uncached, operator.definitions())
            await install_configurations(cluster.uncached, operator)
        elif lacks_definitions:
            await _install_missing(cluster, operator)
        await apply_policies(cluster.uncached, operator, field_owner=_FIELD_OWNER)


async def _install_missing(cluster: Cluster, operator: Operator) -> None:
    """Install the definitions that the server does not serve yet."""
    missing = []
    for kind in operator.custom_kinds():
        try:
            await cluster.mapper.mapping_for(kind.gvk)
        except NoMatchError:
            missing.append(kind)
    await install_definitions(cluster.uncached, crds_for(missing))


async def _wait_ready(operator: Operator, work: asyncio.Task[None], seconds: float) -> None:
    """Wait until the readiness checks pass. Raises `OperatorTimeoutError` with those that fail."""
    await asyncio.sleep(0)  # the operator creates its manager
    reason = "the caches are not started"
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            if work.done():
                await asyncio.sleep(0)  # an error of the operator cancels this task
            await operator.manager.wait_ready()
            if not operator.options.leader_election:
                await operator.manager.wait_elected()
            pause = _FIRST_POLL
            while True:
                await asyncio.sleep(pause)
                failures = await operator.manager.readyz.failures()
                if not failures:
                    return
                reason = "; ".join(f"{name}: {error}" for name, error in failures.items())
                pause = min(2 * pause, _LAST_POLL)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise OperatorTimeoutError(f"{operator!r} is not ready after {seconds:g} s: {reason}") from error


async def _stop(operator: Operator, work: asyncio.Task[None], seconds: float) -> None:
    if not work.done():
        operator.manager.stop()
    _, running = await asyncio.wait([work], timeout=seconds)
    if running:
        work.cancel()
        raise OperatorTimeoutError(f"{operator!r} has not stopped after {seconds:g} s")
