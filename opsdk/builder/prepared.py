"""One start of an operator: the manager, the cluster and the controllers that are built from its declaration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from opsdk.aio.watchdog import Stall, Watchdog
from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject
from opsdk.base.place import caller_place
from opsdk.builder.cache_report import CacheReport, check_caches, check_functions
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.debug_pages import add_operator_pages
from opsdk.builder.declaration import OperatorDeclaration
from opsdk.cache.metrics import InformerCollector
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.manager.deferred import DeferredRunnable
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.declared import ControllerKinds
from opsdk.rest.config import RestConfig
from opsdk.telemetry.records import LoopStalled, TelemetryHook

if TYPE_CHECKING:  # start-up time: most operators have no webhooks, and rules are reviewed after the start
    from opsdk.rbac.review import RuleCheck
    from opsdk.webhook.registered.objects import RegisteredObjects
    from opsdk.webhook.server import WebhookServer

T = TypeVar("T", bound=AnyObject)


class PreparedOperator:
    """The manager of one start of an operator, with everything that it runs. It is used once.

    The constructor creates the manager and the cluster; `add_services` adds all but the controllers. Then their
    builders come from `controller_for`, and `complete` checks that they are complete.

    Args:
        declaration: what is built.
        config: address and credentials.
        cluster: a running cluster to use, which its owner closes; None for one of its own.
        hooks: receive telemetry.

    Attributes:
        manager: runs everything.
        cluster: the cluster of the controllers.
        webhook_server: serves the declared webhooks; None before `add_services`, and without webhooks.
        watchdog: of the event loop. It measures only if the caller enters it.
    """

    def __init__(
        self,
        declaration: OperatorDeclaration,
        config: RestConfig,
        *,
        cluster: Cluster | None = None,
        hooks: Sequence[TelemetryHook] = (),
    ) -> None:
        o = declaration.options
        self._declaration, self._options = declaration, o
        if o.namespace:
            config = replace(config, namespace=o.namespace, namespace_source="--namespace")
        self._config = config
        self._builders: list[ControllerBuilder[Any]] = []
        self._connections = AsyncExitStack()
        """Closes after the manager has ended: that of the election first."""
        self.webhook_server: WebhookServer | None = None
        self.watchdog = Watchdog(limit=o.watchdog_limit, on_stall=self._record_stall)
        self.manager = Manager(o.manager, hooks=[*hooks, *declaration.hooks])
        if cluster is None:
            options = replace(o.cluster, name=declaration.name, field_owner=declaration.field_owner)
            cluster = Cluster(config, options, scheme=declaration.scheme, hook=self.manager.hook)
            self.manager.add(cluster, phase=Phase.CACHES)
            self._connections.push_async_callback(cluster.aclose)
        self.cluster = cluster

    def add_services(self) -> None:
        """Add checks, metrics, election, pages, webhooks and pauses to the manager. Raises `UsageError`."""
        manager, cluster, o = self.manager, self.cluster, self._options
        declaration = self._declaration
        manager.metrics.add_collector(lambda: declaration.registry)
        manager.metrics.add_collector(lambda: InformerCollector(cluster.cache.health))
        manager.use_client(cluster.uncached)
        manager.add_readyz_check("caches-synced", partial(check_caches, cluster.cache))
        manager.add_readyz_check("user-functions", partial(check_functions, cluster.cache))
        if o.leader_election and self.runs_controllers:
            self._use_election()
        cluster.has_one_process = self.runs_controllers and not o.leader_election
        add_operator_pages(manager.debug, declaration.name, lambda: declaration.journal, objects=o.debug_objects)
        if (webhooks := declaration.served_webhooks) is not None:
            self.webhook_server = webhooks.serve(manager, cluster, o.webhook, declaration.registered_objects)
        if o.pause_config_map:
            from opsdk.builder.controller_pauses import ControllerPauses  # noqa: PLC0415 - start-up time: an option

            pauses = ControllerPauses(cluster, o.pause_config_map)
            manager.on_add(pauses.add)
            manager.add(pauses, phase=Phase.CACHES)

    async def start(self) -> None:
        """Run the manager, then close the connections. Raises the errors of `Manager.start`."""
        async with self._connections:
            await self.manager.start()

    # -------------------------------------------------------------- controllers
    @property
    def runs_controllers(self) -> bool:
        """Whether this process runs controllers, not only webhooks."""
        return "controllers" in self._options.components

    @property
    def controllers(self) -> dict[str, Controller]:
        """The controllers by name."""
        return {b.controller.name: b.controller for b in self._builders if b.controller is not None}

    def controller_kinds(self) -> list[ControllerKinds]:
        """Return what the rules of each controller derive from, also of those that setup functions built."""
        return [builder.declared_kinds() for builder in self._builders]

    def controller_for(
        self, kind: KindLike[T], *, name: str = "", options: ControllerOptions | None = None
    ) -> ControllerBuilder[T]:
        """Return a builder for a controller of `kind`."""
        options = options or self._declaration.controller_options(name, kind)
        return self.controller(name, options=options).for_(kind)

    def controller(self, name: str, *, options: ControllerOptions | None = None) -> ControllerBuilder[Any]:
        """Return a builder for a controller without a reconciled kind."""
        builder = ControllerBuilder[Any](
            self.cluster,
            manager=self.manager,
            name=name,
            options=options or self._options.controller,
            hook=self.manager.hook,
            journal=self._declaration.journal,
            place=caller_place(),
        )
        self._builders.append(builder)
        return builder

    def complete(self) -> None:
        """Check the controllers, and add what follows from them. Raises `UsageError`."""
        for builder in self._builders:
            if not self.runs_controllers:
                raise UsageError(
                    f"this process runs webhooks only, and a setup function built {builder!r}: build it only if "
                    '"controllers" in operator.options.components'
                )
            if builder.controller is None:
                raise UsageError(f"{builder!r} was declared but not completed: call complete()")
        declaration = self._declaration
        if not (self._builders or declaration.has_setup or declaration.has_webhooks or declaration.policies):
            raise UsageError(
                f"operator {declaration.name} has nothing to run: declare a reconciler with "
                "@operator.reconciler(Kind), or add runnables in a function with @operator.setup"
            )
        if self._follows_registered_objects():
            self.manager.add(DeferredRunnable(self._registration_follower))
        self._review_rules(self._options.rbac_check)
        self.manager.add(CacheReport(self.cluster.cache), phase=Phase.OTHERS)

    # -------------------------------------------------------------- the rest of the manager
    def _follows_registered_objects(self) -> bool:
        """Whether policies or definitions are followed here: with webhooks, their server follows the definitions."""
        declaration = self._declaration
        # A recording has what its replay needs, and the follower decides nothing.
        if not declaration.follows_definitions or self._options.recording.directory:
            return False
        return bool(declaration.policies) or (declaration.webhooks is None and bool(declaration.followed_kinds()))

    def _registration_follower(self) -> RegisteredObjects:
        """Return the follower of policies, and of definitions without webhooks, and add its debug page."""
        from opsdk.webhook.registered.objects import RegisteredObjects  # noqa: PLC0415 - start-up time: after the start

        declaration = self._declaration
        definitions = declaration.registered_objects() if declaration.webhooks is None else []
        follower = RegisteredObjects(
            self.cluster.uncached,
            [*definitions, *declaration.registered_policies()],
            new_cache=self.cluster.new_cache,
            hook=self.manager.hook,
            field_owner=declaration.field_owner,
            is_called=False,
        )
        for page, rows in follower.debug_pages().items():
            self.manager.debug.extend(page, rows)
        return follower

    def _review_rules(self, mode: RbacCheck) -> None:
        def check() -> RuleCheck:
            from opsdk.rbac.review import PermissionReviewer, RuleCheck  # noqa: PLC0415 - as above

            declaration = self._declaration
            reviewer = PermissionReviewer(self.cluster.transport, declaration.scheme)
            return RuleCheck(reviewer, declaration.required_rules(), mode=mode, role=declaration.name)

        if mode is RbacCheck.ERROR:
            # Before the webhook certificates, whose requests fail for the first missing permission only.
            self.manager.add(check(), phase=Phase.HTTP)
        elif mode is RbacCheck.WARN:
            self.manager.add(DeferredRunnable(check))

    def _use_election(self) -> None:
        """Give the manager a leader election, in a thread of its own where the client can be used there."""
        from opsdk.builder.election import (  # noqa: PLC0415 - start-up time: tests and `dev` run without
            ElectionFactory,
            can_use_thread,
            election_options,
        )

        o, config = self._options, self._config
        factory = ElectionFactory(
            config,
            election_options(o, self._declaration.name, config),
            scheme=self._declaration.scheme,
            hook=self.manager.hook,
            explain=self._stall_description,
        )
        if o.leader_election_thread and can_use_thread(config):
            thread = factory.in_thread(o.leader_election_max_stall)
            self.manager.use_election(thread)
            self._connections.push_async_callback(thread.aclose)
        else:
            elector, connection = factory.in_loop()
            self.manager.use_election(elector)
            self._connections.push_async_callback(connection.aclose)

    def _record_stall(self, stall: Stall) -> None:
        self.manager.hook.record(LoopStalled(seconds=stall.seconds, where=stall.where))

    def _stall_description(self) -> str:
        """Describe the last stall of the event loop if it may have caused the loss of the lease; else return ""."""
        stall = self.watchdog.last
        recent = stall is not None and time.monotonic() - stall.ended_at < 2 * self._options.lease_duration
        return str(stall) if recent else ""

    def __repr__(self) -> str:
        return f"<PreparedOperator {self._declaration.name}>"
