"""One session of ``opsdk dev``: a cluster with running informers, and the newest version of the operator."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.api.core.v1 import Namespace, Service, ServicePort, ServiceSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cli.dev.undeclared import UndeclaredRequests
from opsdk.cli.loading import place_of
from opsdk.cli.package.deployment import webhook_service_name
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import Journal
from opsdk.engine.policies import apply_policies, delete_policies
from opsdk.errors import OpsdkError, UsageError
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import RestConfig
from opsdk.testing.definitions import install_definitions
from opsdk.testing.webhooks import install_configurations, local_address, with_local_webhooks

log = logging.getLogger("opsdk.dev")

# Seconds for active reconciles to finish before new code runs.
_STOP_SECONDS = 2.0
_FIELD_OWNER = "opsdk-dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The result of a reload.

    Attributes:
        seconds: from the call until the controllers of the new code run.
        definitions: names of the CustomResourceDefinitions that changed.
        error: the reason why the new code does not run, or None.
        ended: the new code ran, and ended before its controllers did.
        first: no code of this session ran before.
    """

    seconds: float
    definitions: tuple[str, ...] = ()
    error: str | None = None
    ended: bool = False
    first: bool = False

    def __str__(self) -> str:
        if self.ended:
            return f"the operator stopped after {self.seconds:.2f} s, change a file to restart it: {self.error}"
        if self.error is not None:
            state = (
                "the operator is not running, change a file to try again"
                if self.first
                else "the previous version keeps running"
            )
            return f"{state}: {self.error}"
        definitions = f", applied {', '.join(self.definitions)}" if self.definitions else ""
        return f"{'started' if self.first else 'reloaded'} in {self.seconds:.2f} s{definitions}"


@dataclass(frozen=True, slots=True)
class _RunningCluster:
    """A cluster and the task of its informers."""

    cluster: Cluster
    task: asyncio.Task[None]

    async def aclose(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.cluster.aclose()


class DevSession(Closing):
    """Runs an operator on a cluster of its own, and replaces it without listing anything again.

    Args:
        config: address and credentials.
        load: imports and returns a new operator; called for each reload.
        webhook_port: where webhooks are served on this machine.
        service_namespace: returns, by the operator's name, the namespace of the Service through which the API server
            calls the webhooks, as in the generated manifests; None for a URL: only envtest's API server can call a
            Service that leads to a process outside the cluster.
        debug_port: where the debug pages are served on this machine, unless the operator has an address for them; 0
            for none.

    Attributes:
        operator: the operator that runs, or None before the first one and after a failure.
        failure: the error that stopped the operator, or None.
        reloads: number of successful reloads, the first start included.
    """

    def __init__(
        self,
        config: RestConfig,
        load: Callable[[], Operator],
        *,
        webhook_port: int = 9443,
        service_namespace: Callable[[str], str] | None = None,
        debug_port: int = 0,
    ) -> None:
        self.config = config
        self.operator: Operator | None = None
        self.failure: BaseException | None = None
        self.reloads = 0
        self._load = load
        self._webhook_port = webhook_port
        self._service_namespace = service_namespace
        self._debug_port = debug_port
        self._journal: Journal | None = None
        self._running: _RunningCluster | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that the operator runs on, or None before the first operator."""
        return self._running.cluster if self._running is not None else None

    async def reload(self) -> Reload:
        """Load the operator and replace the running one. If loading fails, the old one keeps running.

        A reload after a failure restarts the operator.
        """
        began, first = time.monotonic(), self.reloads == 0
        try:
            operator = self._load()
            if operator.has_webhooks:
                operator.options = self._with_webhooks(operator)
            manager = operator.options.manager
            if self._debug_port and not manager.debug_bind_address:
                manager = replace(manager, debug_bind_address=f"127.0.0.1:{self._debug_port}")
            operator.options = replace(operator.options, leader_election=False, manager=manager)
            self._journal = operator.journal = self._journal or operator.journal
            # Setup functions may add indices and handlers to the cache, so each version gets a new cache.
            running = await self._open(operator) if self._running is None or operator.has_setup else self._running
            changed = await self._prepare(operator, running)
        except OpsdkError as error:
            return Reload(seconds=time.monotonic() - began, error=str(error), first=first)
        before = self.operator
        await self._stop()
        if before is not None:
            await delete_policies(running.cluster.uncached, before, operator)
        if self._running is not None and self._running is not running:
            await self._running.aclose()
        self._running = running
        self.failure = None
        self.operator = operator
        self._task = asyncio.create_task(operator.start_prepared(), name="opsdk dev/operator")
        self._task.add_done_callback(self._on_end)
        await self._wait_started(operator)
        for kind in running.cluster.cache.kinds():
            kind.pinned = True  # outlives the handlers of this version
        self.reloads += 1
        if self._task.done():
            failure = None if self._task.cancelled() else self._task.exception()
            reason = "it was cancelled" if failure is None else str(failure)
            return Reload(seconds=time.monotonic() - began, error=reason, ended=True, first=first)
        return Reload(seconds=time.monotonic() - began, definitions=tuple(changed), first=first)

    async def aclose(self) -> None:
        """Stop the operator and close the cluster. Idempotent."""
        await self._stop()
        running, self._running = self._running, None
        if running is not None:
            await running.aclose()

    async def _prepare(self, operator: Operator, running: _RunningCluster) -> list[str]:
        """Install definitions, webhooks and policies, and make the operator before the old code stops.

        Closes a new cluster on failure. Returns the names of the changed definitions.

        Raises:
            OpsdkError: also for every exception of a setup function.
        """
        try:
            changed = await install_definitions(running.cluster.uncached, operator.definitions())
            await self._install_service(running.cluster.uncached, operator)
            await install_configurations(running.cluster.uncached, operator)
            await apply_policies(running.cluster.uncached, operator, field_owner=_FIELD_OWNER)
            try:
                operator.prepare(self.config, cluster=running.cluster)
            except OpsdkError:
                raise
            except Exception as error:  # a setup function may raise anything
                raise UsageError(f"{place_of(error.__traceback__)}{type(error).__name__}: {error}") from error
        except BaseException:
            if running is not self._running:
                await running.aclose()
            raise
        return list(changed)

    def _with_webhooks(self, operator: Operator) -> OperatorOptions:
        if self._service_namespace is None:
            return with_local_webhooks(operator, namespace=self.config.namespace, port=self._webhook_port)
        certificates = operator.options.webhook.certificates
        service = (certificates.service if certificates is not None else "") or webhook_service_name(operator.name)
        namespace = (certificates.namespace if certificates is not None else "") or self._service_namespace(
            operator.name
        )
        return with_local_webhooks(operator, namespace=namespace, port=self._webhook_port, service=service)

    async def _install_service(self, client: Client, operator: Operator) -> None:
        """Apply the Service of the webhooks and its namespace.

        The configurations then equal those of the generated manifests, which ``kubectl apply`` merges into them: an API
        server refuses a configuration with both a URL and a Service.
        """
        certificates = operator.options.webhook.certificates
        if not operator.has_webhooks or certificates is None or not certificates.service:
            return
        name, namespace = certificates.service, certificates.namespace
        port = ServicePort(name="webhooks", port=443, target_port="webhooks", protocol="TCP")
        meta = ObjectMeta(name=name, namespace=namespace, annotations=local_address(self._webhook_port))
        await client.apply(Namespace(metadata=ObjectMeta(name=namespace)), field_owner=_FIELD_OWNER, force=True)
        await client.apply(Service(metadata=meta, spec=ServiceSpec(ports=[port])), field_owner=_FIELD_OWNER, force=True)

    async def _open(self, operator: Operator) -> _RunningCluster:
        """Return a cluster with the options and the scheme of an operator; they hold for all code that runs on it."""
        options = replace(operator.options.cluster, name=operator.name, field_owner=operator.name)
        cluster = Cluster(self.config, options, scheme=operator.scheme, hook=UndeclaredRequests(self._rules))
        task = asyncio.create_task(cluster.start(), name="opsdk dev/cluster")
        await cluster.wait_ready()
        return _RunningCluster(cluster, task)

    def _rules(self) -> RuleSet:
        return self.operator.rules() if self.operator is not None else RuleSet.everything()

    async def _wait_started(self, operator: Operator) -> None:
        """Return when all controllers run, or the operator has ended."""
        assert self._task is not None
        await asyncio.sleep(0)
        for controller in operator.controllers.values():
            started = asyncio.create_task(controller.wait_ready(), name=f"opsdk dev/wait for {controller.name}")
            await asyncio.wait([started, self._task], return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is None or self.operator is None:
            return
        task.remove_done_callback(self._on_end)
        if not task.done():
            self.operator.manager.stop()
            await asyncio.wait([task], timeout=_STOP_SECONDS)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        self.failure = task.exception()
        if self.failure is not None:
            log.error("the operator stopped, change a file to restart it: %s", self.failure, exc_info=self.failure)
