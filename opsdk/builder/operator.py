"""Operator: a manager, a cluster, and controllers declared by decorators or builders."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.aio.watchdog import Stall, Watchdog
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, KubeObject, Object, TypedObject, Unstructured
from opsdk.apimachinery.scheme import Scheme
from opsdk.base.place import caller_place
from opsdk.builder.arguments import check_kind, check_rules, located
from opsdk.builder.cache_report import CacheReport, check_caches, check_functions
from opsdk.builder.clashes import check_clashes
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.controller_pauses import ControllerPauses
from opsdk.builder.debug_pages import add_operator_pages
from opsdk.builder.election import ElectionFactory, can_use_thread, election_options
from opsdk.builder.manifests import operator_configurations, operator_definitions, registered_objects
from opsdk.builder.options import OperatorOptions
from opsdk.builder.rbac import DeclaredController, operator_rules
from opsdk.builder.reconciler_options import (
    ReconcilerDecorator,
    ReconcilerOptions,
    check_declaration,
    declare,
    declared_controller,
)
from opsdk.builder.registration import follow_registered
from opsdk.builder.setup_block import setup_function
from opsdk.cache.metrics import InformerCollector
from opsdk.client.client import Client
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.client.scheme import default_scheme
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller
from opsdk.controller.daemons import DaemonDecorator, DaemonSpec, keep_daemons
from opsdk.controller.journal import Journal
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reverse_deletion import children_finalizer
from opsdk.errors import OpsdkError, UsageError
from opsdk.manager.deferred import DeferredRunnable
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.declared import ControllerKinds
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.review import PermissionReviewer, RuleCheck
from opsdk.rbac.rules import RbacRule
from opsdk.rest.config import Config
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.context import setup_logging
from opsdk.telemetry.records import LoopStalled, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.webhook.builder import WebhookBuilder
from opsdk.webhook.configurations import WebhookClientConfig
from opsdk.webhook.conversion import Converter
from opsdk.webhook.registered.comparison import RegisteredObject
from opsdk.webhook.server import WebhookServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = SafeLogger(__name__)

Child = TypeVar("Child", bound=TypedObject | Unstructured)
T = TypeVar("T", bound=AnyObject)
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])


class Operator:
    """An operator: a manager, a cluster, controllers and webhooks.

    ::

        operator = Operator("website-operator")

        @operator.reconciler(Website, owns=[Deployment])
        async def reconcile(site: Website, ctx: Context) -> None:
            await ctx.apply(deployment_of(site))

        if __name__ == "__main__":
            operator.run()

    Args:
        name: the field owner of its writes, and the reporting controller of its Events.
        options: see `OperatorOptions`.
        scheme: the registry of kinds; default: all built-in kinds.
    """

    def __init__(self, name: str, options: OperatorOptions | None = None, *, scheme: Scheme | None = None) -> None:
        if not name:
            raise UsageError("an operator needs a name: it is the field manager and the reporting controller of Events")
        self.name = name
        self.options = options or OperatorOptions()
        self.scheme = scheme or default_scheme()
        self._builders: list[Callable[[Operator], ControllerBuilder[Any]]] = []
        self._kinds: list[Kind[Any]] = []
        self._webhooks: list[WebhookBuilder[Any]] = []
        self.webhook_server: WebhookServer | None = None
        """Serves the declared webhooks; None before `prepare`, and without webhooks."""
        self._controller_builders: list[ControllerBuilder[Any]] = []
        self.journal = Journal(size=self.options.journal_size)
        """The last reconciles: their causes, reads and writes."""
        self._setups: list[Callable[[Operator], Any]] = []
        self._rules: list[RbacRule] = []
        self._implied: list[RbacRule] = []
        self._declared: list[DeclaredController] = []
        self._finalizers: set[str] = set()
        self._daemons: set[str] = set()
        self._hooks: list[TelemetryHook] = []
        self._cluster: Cluster | None = None
        self._owns_cluster = True
        self._manager: Manager | None = None
        self._election: Closing | None = None
        self._watchdog: Watchdog | None = None
        self.reference = ""
        """How a command line named it, such as ``shop.operator:make``; empty if none did."""
        self._arguments: tuple[str, ...] = ()
        self._environment: dict[str, str] = {}
        self.modules: set[str] = set()
        """Names of the modules with reconcilers."""

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Metrics of your own: ``Counter("name", "help", registry=operator.registry)``. ``/metrics`` shows them."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - start-up time: only pages of metrics need it

        return CollectorRegistry()

    # -------------------------------------------------------------- declarations
    @overload
    def reconciler(self, kind: KindLike[T], **options: Unpack[ReconcilerOptions]) -> ReconcilerDecorator[T]: ...
    @overload
    def reconciler(self, kind: None = None, **options: Unpack[ReconcilerOptions]) -> ReconcilerDecorator[Any]: ...
    def reconciler(
        self, kind: KindLike[Any] | None = None, **options: Unpack[ReconcilerOptions]
    ) -> ReconcilerDecorator[Any]:
        """Decorator: the function, or the class (created without arguments), reconciles `kind`.

        The function takes a request or the object, and may take a `Context`, see `opsdk.controller.declaration`.
        Everything that `ControllerBuilder` offers is a keyword here.

        Args:
            kind: the reconciled kind; None for a controller whose requests are not objects, which needs `name`.
            options: see below.

        Keyword Args:
            owns: kinds, or `OwnsSpec`s, whose objects map to their controller; and external resources.
            watches: `WatchSpec`s of other kinds, and how their objects map to requests; or `referenced` kinds.
            predicates: an event of `kind` must pass all of them.
            event_filter: predicates for every watch, which run first.
            sources: other sources, or functions from the operator to a source.
            finalizers: functions by finalizer, see `opsdk.controller.finalizers`. They run in this order.
            daemons: functions, or `DaemonSpec`s, that run while an object exists.
            rbac: permissions besides those that the declaration implies, see `opsdk.rbac.declared`.
            name: the controller's name; default: the kind in lower case.
            options: the controller's options; default: the operator's.

        Raises:
            UsageError: the function cannot be a reconciler of `kind`; the message has file and line.

        >>> from opsdk.api.core.v1 import ConfigMap
        >>> operator = Operator("example")
        >>> @operator.reconciler(ConfigMap)
        ... async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        ...     ctx.logger.info("%s has %d keys", config_map.metadata.name, len(config_map.data))
        """
        check_declaration(kind, options, self.options.controller)
        declared_kind = kind_of(kind) if kind is not None else None
        if declared_kind is not None:
            self._kinds.append(declared_kind)
        self._finalizers.update(options.get("finalizers", {}))
        name = options.get("name") or (declared_kind.name.lower() if declared_kind is not None else "")
        declared = declared_controller(name, declared_kind, options, is_daemon=name in self._daemons)
        with located(caller_place()):
            owner = self.options.cluster.field_owner or self.name
            check_clashes(declared, self._declared, default=self.options.controller, owner=owner)
        self._declared.append(declared)
        return ReconcilerDecorator(declared_kind, lambda target: self._add_builder(declared_kind, options, target))

    def _add_builder(self, kind: Kind[Any] | None, options: ReconcilerOptions, target: Any) -> None:
        self._builders.append(partial(_build, kind, options, target))
        self.modules.add(getattr(target, "__module__", ""))

    def daemon(
        self,
        kind: KindLike[T],
        *,
        when: Callable[[T], bool] | None = None,
        every: float | timedelta | None = None,
        jitter: float = 0.0,
        threads: int = 0,
        name: str = "",
        options: ControllerOptions | None = None,
    ) -> DaemonDecorator[T]:
        """Decorator: the function runs while an object of `kind` exists, in a controller of its own.

        It is restarted when it raises, and cancelled when the object is deleted, when leadership ends, and at the stop.
        For a daemon that has to end before a finalizer runs, pass ``daemons=`` to `reconciler` together with
        ``finalizers=``.

        Args:
            kind: the kind of the objects.
            when: see `DaemonSpec`; so are `every`, `jitter` and `threads`.
            every: call the function repeatedly, this many seconds after its last return.
            jitter: adds a random share of `every`.
            threads: threads of a plain function, which blocks; 0 for 100.
            name: of the daemon and its controller; default: kind and function.
            options: the controller's options; default: the operator's.

        Raises:
            UsageError: the function does not take ``(obj, ctx)``, or a value is wrong; the message has file and line.

        >>> from opsdk.api.core.v1 import ConfigMap
        >>> operator = Operator("example")
        >>> @operator.daemon(ConfigMap, every=60, jitter=0.1)
        ... async def probe(config_map: ConfigMap, ctx: Context) -> None:
        ...     ctx.logger.info("%s still exists", config_map.metadata.name)
        """
        place = caller_place()

        def declare(function: Any) -> Any:
            with located(place):
                check_kind(kind, "daemon(...)")
                spec = DaemonSpec(function=function, when=when, every=every, jitter=jitter, threads=threads)
            controller = name or f"{kind_of(kind).name}-{spec.shown_name}".lower().replace("_", "-")
            self._daemons.add(controller)
            self.reconciler(kind, name=controller, daemons=[spec], options=options)(keep_daemons)
            return function

        return declare

    def rbac(self, *rules: RbacRule, implied: bool = False) -> None:
        """Declare permissions of setup functions, runnables and webhooks.

        Args:
            rules: the permissions.
            implied: a library needs them, not the operator's own code: `assert_rules` does not report them as unused.

        >>> from opsdk.rbac.rules import RbacRule
        >>> operator = Operator("example")
        >>> operator.rbac(RbacRule("get", "nodes"))
        >>> print(operator.rules())
        get nodes
        """
        with located(caller_place()):
            check_rules(rules, "rbac")
        (self._implied if implied else self._rules).extend(rules)

    def rules(self, *, namespace: str = "default") -> RuleSet:
        """Return every permission that is declared or implied, see `opsdk.rbac.declared`.

        Before `prepare`, controllers of `setup` functions are missing. Rules without namespaces get those of the cache.

        Args:
            namespace: of the Lease and of the Secret with the webhooks' certificate, unless the options or the
                configuration of a prepared operator name another one.
        """
        namespace = self.options.namespace or namespace
        return self._collect_rules(namespace, self._declared_kinds(), [*self._implied, *self._rules])

    def implied_rules(self, *, namespace: str = "default") -> RuleSet:
        """Return the part of `rules` that opsdk declares: for informers, finalizers, election, metrics, webhooks."""
        controllers = [replace(kinds, rules=()) for kinds in self._declared_kinds()]
        return self._collect_rules(self.options.namespace or namespace, controllers, self._implied)

    def _declared_kinds(self) -> list[ControllerKinds]:
        if self._cluster is not None:
            return [builder.declared_kinds() for builder in self._controller_builders]
        return [declared.controller_kinds(self.options.controller) for declared in self._declared]

    def _collect_rules(
        self,
        namespace: str,
        controllers: Sequence[ControllerKinds],
        declared: Sequence[RbacRule],
    ) -> RuleSet:
        """Return the operator's rules: of its controllers, its options, its webhooks, and declared ones."""
        if self._cluster is not None:
            namespace = self._cluster.config.namespace
        return operator_rules(
            self.options,
            name=self.name,
            namespace=namespace,
            controllers=controllers,
            declared=declared,
            registered=self.registered_objects(),
        )

    def add_hook(self, hook: TelemetryHook) -> None:
        """Add a hook that receives the telemetry of the next `start`, besides the hooks of `start` or `run`."""
        self._hooks.append(hook)

    def webhook_for(self, kind: KindLike[T]) -> WebhookBuilder[T]:
        """Return a builder for webhooks of `kind`. The operator completes it, and then runs a webhook server.

        >>> from opsdk.api.core.v1 import ConfigMap
        >>> from opsdk.webhook.handlers import AdmissionContext
        >>> def set_label(config_map: ConfigMap, ctx: AdmissionContext) -> None:
        ...     config_map.metadata.labels.setdefault("team", "none")
        >>> operator = Operator("example")
        >>> _ = operator.webhook_for(ConfigMap).with_defaulter(set_label)
        """
        builder = WebhookBuilder[Any]().for_(kind)
        self._webhooks.append(builder)
        return builder

    def setup(self, function: F) -> F:
        """Decorator: `function(operator)` is called before the start, to add indices, checks or runnables.

        An async generator function runs on each replica: up to its ``yield`` before the controllers start, the rest
        after they have ended. Its reads need ``uncached=True``, because the caches start at the same time.

        Raises `UsageError` for another ``async`` function, because the operator does not run yet.
        """
        self._setups.append(setup_function(function))
        return function

    def controller_for(
        self, kind: KindLike[T], *, name: str = "", options: ControllerOptions | None = None
    ) -> ControllerBuilder[T]:
        """Return a builder for a controller of `kind`. Call it in a `setup` function, or after `prepare`."""
        if options is None:
            declared = next((each for each in self._declared if each.name == name and each.is_daemon), None)
            default = self.options.controller
            options = default if declared is None else declared.effective_options(default)
            group_kind = str(kind_of(kind).gvk.group_kind)
            if (workers := self.options.max_concurrent_reconciles_by_kind.get(group_kind)) is not None:
                options = replace(options, max_concurrent_reconciles=workers)
        return self.controller(name, options=options).for_(kind)

    def controller(self, name: str, *, options: ControllerOptions | None = None) -> ControllerBuilder[Any]:
        """Return a builder for a controller without a reconciled kind. Call it where you may call `controller_for`."""
        builder = ControllerBuilder[Any](
            self.cluster,
            manager=self.manager,
            name=name,
            options=options or self.options.controller,
            hook=self.manager.hook,
            journal=self.journal,
            place=caller_place(),
        )
        self._controller_builders.append(builder)
        return builder

    # -------------------------------------------------------------- access
    @property
    def has_setup(self) -> bool:
        """Whether functions are called before the start, see `setup`. They may add indices to the cluster's cache."""
        return bool(self._setups)

    @property
    def cluster(self) -> Cluster:
        """The cluster. Raises `UsageError` before the operator is started."""
        if self._cluster is None:
            raise UsageError("the operator is not started: call run() or start() to create its cluster")
        return self._cluster

    @property
    def manager(self) -> Manager:
        """The manager. Raises `UsageError` before the operator is started."""
        if self._manager is None:
            raise UsageError("the operator is not started: call run() or start() to create its manager")
        return self._manager

    @property
    def client(self) -> Client:
        """The client: reads from the cache, writes to the server."""
        return self.cluster.client

    async def apply(self, desired: Child, *, owner: KubeObject | None = None, force: bool = True) -> Child:
        """Make an object match `desired`, controlled by `owner`. See `opsdk.children.applier.Applier.apply`."""
        return await self.cluster.applier().apply(desired, owner=owner, force=force)

    @property
    def recorder(self) -> EventRecorder:
        """Writes Events."""
        return self.cluster.recorder

    # -------------------------------------------------------------- life cycle
    def prepare(
        self, config: Config, *, cluster: Cluster | None = None, hooks: Sequence[TelemetryHook] = ()
    ) -> Manager:
        """Create the cluster, the manager and every controller, and return the manager. `start` and `run` call it.

        A given `cluster` is used as it is: its owner starts and closes it.
        """
        o = self.options
        if o.namespace:
            config = replace(config, namespace=o.namespace, namespace_source="--namespace")
        cluster_options = replace(o.cluster, name=self.name, field_owner=o.cluster.field_owner or self.name)
        self._controller_builders = []
        manager = self._manager = Manager(o.manager, hooks=[*hooks, *self._hooks])
        self._owns_cluster = cluster is None
        if cluster is None:
            cluster = Cluster(config, cluster_options, scheme=self.scheme, hook=manager.hook)
            manager.add(cluster, phase=Phase.CACHES)
        self._cluster = cluster
        manager.metrics.add_collector(lambda: self.registry)
        manager.metrics.add_collector(lambda: InformerCollector(self.cluster.cache.health))
        manager.use_client(self._cluster.uncached)
        manager.add_readyz_check("caches-synced", partial(check_caches, cluster.cache))
        manager.add_readyz_check("user-functions", partial(check_functions, cluster.cache))
        runs_controllers = "controllers" in o.components
        if o.leader_election and runs_controllers:
            self._use_election(manager, config)
        add_operator_pages(manager.debug, self.name, lambda: self.journal, objects=o.debug_objects)
        if self.has_webhooks:
            self._serve_webhooks(manager)
        self._follow_pauses(manager)
        self._build_controllers(runs_controllers=runs_controllers)
        self._review_rules(manager)
        manager.add(CacheReport(self._cluster.cache), phase=Phase.OTHERS)
        return manager

    def _build_controllers(self, *, runs_controllers: bool) -> None:
        """Run the setup functions, and complete the declared controllers. Raises `UsageError`."""
        for setup in self._setups:
            setup(self)
        for plan in self._builders if runs_controllers else ():
            plan(self).complete()
        for builder in self._controller_builders:
            if not runs_controllers:
                raise UsageError(
                    f"this process runs webhooks only, and a setup function built {builder!r}: build it only if "
                    '"controllers" in operator.options.components'
                )
            if builder.controller is None:
                raise UsageError(f"{builder!r} was declared but not completed: call complete()")
        if not self._controller_builders and not self._setups and not self.has_webhooks:
            raise UsageError(
                f"operator {self.name} has nothing to run: declare a reconciler with @operator.reconciler(Kind), or "
                "add runnables in a function with @operator.setup"
            )

    def _follow_pauses(self, manager: Manager) -> None:
        if name := self.options.pause_config_map:
            pauses = ControllerPauses(self.cluster, name)
            manager.on_add(pauses.add)
            manager.add(pauses, phase=Phase.CACHES)

    def _review_rules(self, manager: Manager) -> None:
        def check() -> RuleCheck:
            reviewer = PermissionReviewer(self.cluster.transport, self.scheme)
            return RuleCheck(reviewer, self.rules(), mode=mode, role=self.name)

        mode = self.options.rbac_check
        if mode is RbacCheck.ERROR:
            # Before the webhook certificates, whose requests fail for the first missing permission only.
            manager.add(check(), phase=Phase.HTTP)
        elif mode is RbacCheck.WARN:
            manager.add(DeferredRunnable(check))

    async def start(
        self, config: Config, *, cluster: Cluster | None = None, hooks: Sequence[TelemetryHook] = ()
    ) -> None:
        """Run until cancelled, or until something fails. Raises the errors of `Manager.start`.

        Args:
            config: address and credentials.
            cluster: a running cluster whose informers are used: for several operators in one process, and for one that
                replaces another without new lists. Its scheme and options apply.
            hooks: receive telemetry.
        """
        self.prepare(config, cluster=cluster, hooks=hooks)
        await self.start_prepared()

    async def start_prepared(self) -> None:
        """Run the prepared manager, once. Raises the errors of `start`."""
        try:
            await self.manager.start()
        finally:
            # Close it after the manager, which releases the lease over this connection.
            if self._election is not None:
                await self._election.aclose()
            if self._owns_cluster:
                await self.cluster.aclose()

    def run(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        log_level: int | str = logging.INFO,
        log_format: Literal["text", "json"] = "text",
        log_levels: Mapping[str, int | str] | None = None,
        hooks: Sequence[TelemetryHook] = (),
    ) -> None:
        """Run as a program: load the configuration, configure logging, handle signals. Returns after SIGTERM or SIGINT.

        The process exits within `ManagerOptions.shutdown_timeout` and a grace period, even if user code hangs. Code
        that blocks the event loop is logged (see `opsdk.aio.watchdog`). If remaining threads would keep the interpreter
        from exiting, the process exits here (see `opsdk.manager.process.run_program`).

        Args:
            kubeconfig: see `opsdk.rest.load.load_config`.
            context: see `opsdk.rest.load.load_config`.
            log_level: see `opsdk.telemetry.context.setup_logging`.
            log_format: see `setup_logging`.
            log_levels: see `setup_logging`.
            hooks: receive telemetry, such as `opsdk.telemetry.otel.OpenTelemetryHook`.

        Raises:
            Exception: see `start`.
        """
        # Start-up time: only programs need a kubeconfig, signals and the flight recorder.
        from opsdk.builder.checkpoint import take_checkpoint  # noqa: PLC0415 - as above
        from opsdk.builder.program import ProgramRun  # noqa: PLC0415 - as above
        from opsdk.recording.process import RecordedProgram  # noqa: PLC0415 - as above
        from opsdk.rest.load import load_config  # noqa: PLC0415 - as above

        setup_logging(log_level, log_format, levels=log_levels)
        config = load_config(kubeconfig=kubeconfig, context=context)
        program = ProgramRun(
            self.options,
            prepare=lambda: self.prepare(config, hooks=[*hooks, *program.hooks]),
            start=self.start_prepared,
            watchdog=self._new_watchdog,
            checkpoint=partial(take_checkpoint, self),
        )
        described = RecordedProgram(
            operator=self.name,
            reference=self.reference,
            arguments=self._arguments,
            environment=self._environment,
            modules=tuple(self.modules),
        )
        program.run(config, described)

    def main(self, arguments: Sequence[str] | None = None, *, hooks: Sequence[TelemetryHook] = ()) -> None:
        """Run as a program with flags and environment variables, see `opsdk.builder.flags`.

        An `OpsdkError` is printed as one line, and ends the program with status 1.

        Args:
            arguments: the command line without the program; default: ``sys.argv``.
            hooks: see `run`.
        """
        from opsdk.apimachinery.serializer.yaml_writer import write_documents  # noqa: PLC0415 - as below
        from opsdk.builder.flags import flags_in, parse_flags  # noqa: PLC0415 - start-up time: argparse is for programs

        self._arguments = tuple(sys.argv[1:] if arguments is None else arguments)
        try:
            self.options, run_arguments = parse_flags(self.name, self.options, self._arguments, os.environ)
            self._environment = flags_in(os.environ)
            if run_arguments.pop("print_crds"):
                sys.stdout.write(write_documents(self.definitions(), sort_keys=False))
            else:
                self.run(**run_arguments, hooks=hooks)
        except OpsdkError as error:
            sys.exit(f"{self.name}: {error}")

    @property
    def controllers(self) -> dict[str, Controller]:
        """The controllers by name. Empty before the operator is prepared."""
        return {b.controller.name: b.controller for b in self._controller_builders if b.controller is not None}

    def custom_kinds(self) -> list[type[Object[Any, Any]]]:
        """Return the classes with a CustomResourceDefinition among the kinds that `reconciler` declared."""
        kinds = [kind.representation for kind in self._kinds if issubclass(kind.representation, Object)]
        return list(dict.fromkeys(kinds))

    def finalizer_names(self) -> frozenset[str]:
        """Return the names of the finalizers that `reconciler` declared, and those of ``delete_in_reverse``."""
        default, owner = self.options.controller, self.options.cluster.field_owner or self.name
        deletes = [declared.name for declared in self._declared if declared.deletes_children(default)]
        return frozenset([*self._finalizers, *(children_finalizer(owner, name) for name in deletes)])

    @property
    def converters(self) -> dict[GroupKind, Converter]:
        """The declared converters of custom resources, by kind."""
        return {b.converter.group_kind: b.converter for b in self._webhooks if b.converter is not None}

    @property
    def has_webhooks(self) -> bool:
        """Whether webhooks are declared and this process serves them, so that a webhook server runs."""
        return bool(self._webhooks) and "webhooks" in self.options.components

    def definitions(self, client_config: WebhookClientConfig | None = None) -> list[JsonObject]:
        """Return one CustomResourceDefinition for each reconciled class, with the other versions of its converter.

        Args:
            client_config: how the API server reaches the webhook server, for conversions; default: from
                `WebhookServerOptions.certificates`.

        Raises:
            UsageError: versions are converted, and the address of the webhook server is not known.
        """
        return operator_definitions(self.custom_kinds(), self._webhooks, self._client_config(client_config))

    def webhook_configurations(self, client_config: WebhookClientConfig | None = None) -> list[JsonObject]:
        """Return the configurations of the declared admission webhooks; empty without any.

        Args:
            client_config: as for `definitions`.

        Raises:
            UsageError: see `definitions`.
        """
        if not self._webhooks:
            return []
        client_config = self._client_config(client_config)
        if client_config is None:
            text = "set WebhookServerOptions.certificates, or pass client_config"
            raise UsageError(f"the API server must call this operator: {text}")
        return operator_configurations(self._webhooks, client_config, name=self._configurations_name)

    def _client_config(self, client_config: WebhookClientConfig | None) -> WebhookClientConfig | None:
        """Return `client_config`, or the one from the options if the operator has webhooks."""
        certificates = self.options.webhook.certificates
        if client_config is None and certificates is not None and self._webhooks:
            return certificates.client_config()
        return client_config

    @property
    def _configurations_name(self) -> str:
        certificates = self.options.webhook.certificates
        return (certificates.configurations if certificates is not None else "") or self.name

    def _new_watchdog(self) -> Watchdog:
        self._watchdog = Watchdog(limit=self.options.watchdog_limit, on_stall=self._record_stall)
        return self._watchdog

    def registered_objects(self) -> list[RegisteredObject]:
        """Return what the operator registers at the API server and follows; empty without webhooks."""
        options = self.options.webhook
        kinds = self.custom_kinds()
        return registered_objects(kinds, self._webhooks, options.certificates, name=self._configurations_name)

    def _serve_webhooks(self, manager: Manager) -> None:
        server = self.webhook_server = WebhookServer(self.options.webhook, hook=manager.hook)
        for builder in self._webhooks:
            builder.complete(server)
        if server.options.listen:
            follow_registered(
                manager, self.cluster, server, self.registered_objects(), issue=self.options.webhook.certificates
            )
        manager.add(server)
        manager.add_readyz_check("webhooks", server.check_started)

    def _record_stall(self, stall: Stall) -> None:
        self.manager.hook.record(LoopStalled(seconds=stall.seconds, where=stall.where))

    def _stall_description(self) -> str:
        """Describe the last stall of the event loop if it may have caused the loss of the lease; else return ""."""
        stall = self._watchdog.last if self._watchdog is not None else None
        recent = stall is not None and time.monotonic() - stall.ended_at < 2 * self.options.lease_duration
        return str(stall) if recent else ""

    def _use_election(self, manager: Manager, config: Config) -> None:
        """Give the manager a leader election, in a thread of its own where the client can be used there."""
        o = self.options
        factory = ElectionFactory(
            config,
            election_options(o, self.name, config),
            scheme=self.scheme,
            hook=manager.hook,
            explain=self._stall_description,
        )
        if o.leader_election_thread and can_use_thread(config):
            election = factory.in_thread(o.leader_election_max_stall)
            self._election = election
            manager.use_election(election)
        else:
            elector, self._election = factory.in_loop()
            manager.use_election(elector)

    def register(self, *kinds: type[Any]) -> None:
        """Add classes to the operator's scheme."""
        self.scheme.add(*kinds)

    def __repr__(self) -> str:
        return f"<Operator {self.name}>"


def _build(
    kind: Kind[Any] | None, options: ReconcilerOptions, target: Any, operator: Operator
) -> ControllerBuilder[Any]:
    """Return the builder for one `Operator.reconciler`."""
    name, controller_options = options.get("name", ""), options.get("options")
    if kind is not None:
        builder = operator.controller_for(kind, name=name, options=controller_options)
    else:
        builder = operator.controller(name, options=controller_options)
    return declare(builder, options, target, source_argument=operator)
