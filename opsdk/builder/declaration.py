"""What an operator declares: reconcilers, webhooks, permissions; and what follows from that without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, Object
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.validation import dns_subdomain
from opsdk.base.place import caller_place
from opsdk.builder.arguments import check_kind, check_rules, located
from opsdk.builder.clashes import check_clashes
from opsdk.builder.options import OperatorOptions
from opsdk.builder.rbac import DeclaredController, definition_rules, operator_rules, policy_rules
from opsdk.builder.reconciler_options import (
    DeclaredReconciler,
    ReconcilerDecorator,
    ReconcilerOptions,
    check_declaration,
    declared_controller,
)
from opsdk.builder.setup_block import setup_function
from opsdk.builder.unseen import check_unseen
from opsdk.client.scheme import default_scheme
from opsdk.controller.daemons import DaemonDecorator, DaemonSpec, keep_daemons
from opsdk.controller.journal import Journal
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reverse_deletion import children_finalizer
from opsdk.errors import UsageError
from opsdk.rbac.declared import ControllerKinds, cached_namespaces
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import RbacRule
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import TelemetryHook

if TYPE_CHECKING:  # start-up time: most operators have no webhooks
    from prometheus_client import CollectorRegistry

    from opsdk.builder.declared_webhooks import DeclaredWebhooks
    from opsdk.webhook.builder import WebhookBuilder
    from opsdk.webhook.configurations import WebhookClientConfig
    from opsdk.webhook.conversion import Converter
    from opsdk.webhook.policies import AdmissionPolicy
    from opsdk.webhook.registered.comparison import RegisteredObject
    from opsdk.webhook.registered.policy_targets import RegisteredPolicy

T = TypeVar("T", bound=AnyObject)
F = TypeVar("F", bound=Callable[..., Any])


class OperatorDeclaration:
    """The declarations of an `Operator`. Its permissions, definitions and configurations follow from them.

    Args:
        name: the field owner of its writes, and the reporting controller of its Events.
        options: see `OperatorOptions`.
        scheme: the registry of kinds; default: all built-in kinds.

    Attributes:
        reconcilers: of `reconciler`, in order.
        webhooks: of `webhook_for`; None without any.
        policies: of `add_policy`, in order.
        setups: plain functions that `setup` declared; their argument is the operator.
        hooks: of `add_hook`.
        follows_definitions: report what others change in its policies and, without webhooks, in the definitions of its
            kinds. A plan, a verification and a replay set it to False: nothing else writes there.
    """

    def __init__(self, name: str, options: OperatorOptions | None = None, *, scheme: Scheme | None = None) -> None:
        if not name:
            raise UsageError("an operator needs a name: it is the field manager and the reporting controller of Events")
        if problems := dns_subdomain(name):
            raise UsageError(
                f"{caller_place()}: the operator's name {name!r} names its Lease and roles too: {problems[0]}"
            )
        passed: object = options
        if passed is not None and not isinstance(passed, OperatorOptions):
            raise UsageError(f"{caller_place()}: the options of {name} are {passed!r}: pass OperatorOptions(...)")
        self.name = name
        self.options = options or OperatorOptions()
        self.scheme = scheme or default_scheme()
        self.reconcilers: Final[list[DeclaredReconciler]] = []
        self.webhooks: DeclaredWebhooks | None = None
        self.policies: Final[list[AdmissionPolicy]] = []
        self.setups: Final[list[Callable[[Any], Any]]] = []
        self.hooks: Final[list[TelemetryHook]] = []
        self.follows_definitions = True
        self._controllers: list[DeclaredController] = []
        self._rules: list[RbacRule] = []
        self._implied: list[RbacRule] = []

    @cached_property
    def journal(self) -> Journal:
        """The last reconciles: their causes, reads and writes."""
        # At the first use: flags may change the options of a declared operator.
        return Journal(size=self.options.journal_size)

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Metrics of your own: ``Counter("name", "help", registry=operator.registry)``. ``/metrics`` shows them."""
        from prometheus_client import CollectorRegistry

        return CollectorRegistry()

    def register(self, *kinds: type[Any]) -> None:
        """Add classes to the operator's scheme."""
        self.scheme.add(*kinds)

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
            watches: `WatchSpec`s of other kinds, and how their objects map to requests; or `references(...)`.
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

        >>> from opsdk import Operator
        >>> from opsdk.api.core.v1 import ConfigMap
        >>> operator = Operator("example")
        >>> @operator.reconciler(ConfigMap)
        ... async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        ...     ctx.logger.info("%s has %d keys", config_map.metadata.name, len(config_map.data))
        """
        return self._declare(kind, options)

    def _declare(
        self, kind: KindLike[Any] | None, options: ReconcilerOptions, *, is_daemon: bool = False
    ) -> ReconcilerDecorator[Any]:
        """Declare a controller; the returned decorator declares its reconciler."""
        check_declaration(kind, options, self.options.controller)
        declared_kind = kind_of(kind) if kind is not None else None
        name = options.get("name") or (declared_kind.name.lower() if declared_kind is not None else "")
        controller = declared_controller(name, declared_kind, options, is_daemon=is_daemon)
        with located(caller_place()):
            default, cache = self.options.controller, self.options.cluster.cache
            check_clashes(controller, self._controllers, default=default, owner=self.field_owner)
            has_finalizers = bool(controller.finalizers) or controller.deletes_children(default)
            check_unseen(declared_kind, controller.kinds.owns, cache, has_finalizers=has_finalizers)
        self._controllers.append(controller)
        return ReconcilerDecorator(
            declared_kind, lambda target: self.reconcilers.append(DeclaredReconciler(declared_kind, options, target))
        )

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

        >>> from opsdk import Operator
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
            self._declare(kind, {"name": controller, "daemons": [spec], "options": options}, is_daemon=True)(
                keep_daemons
            )
            return function

        return declare

    def webhook_for(self, kind: KindLike[T]) -> WebhookBuilder[T]:
        """Return a builder for webhooks of `kind`. The operator completes it, and then runs a webhook server.

        >>> from opsdk import Operator
        >>> from opsdk.api.core.v1 import ConfigMap
        >>> from opsdk.webhook.handlers import AdmissionContext
        >>> def set_label(config_map: ConfigMap, ctx: AdmissionContext) -> None:
        ...     config_map.metadata.labels.setdefault("team", "none")
        >>> operator = Operator("example")
        >>> _ = operator.webhook_for(ConfigMap).with_defaulter(set_label)
        """
        if self.webhooks is None:
            from opsdk.builder.declared_webhooks import DeclaredWebhooks  # noqa: PLC0415 - start-up time: see its docstring

            self.webhooks = DeclaredWebhooks()
        return self.webhooks.add(kind)

    def add_policy(self, *policies: type) -> None:
        """Add classes that `opsdk.webhook.policies.policy` decorates. The API server runs the policies.

        Raises:
            UsageError: a class is no policy, a name occurs twice, or is not valid with the operator's name.

        >>> from opsdk import Operator
        >>> from opsdk.api.core.v1 import ConfigMap
        >>> from opsdk.webhook.policies import AdmissionRule, policy
        >>> @policy(ConfigMap)
        ... class SizeLimit:
        ...     rules = [AdmissionRule("!has(object.data) || object.data.size() <= 100", message="at most 100 keys")]
        >>> operator = Operator("example")
        >>> operator.add_policy(SizeLimit)
        >>> operator.admission_policies()[0]["metadata"]["name"]
        'example.size-limit'
        """
        with located(caller_place()):
            from opsdk.webhook.policies import policy_of  # noqa: PLC0415 - start-up time: most operators have none

            self.policies.extend(map(policy_of, policies))
            self.admission_policies()

    def setup(self, function: F) -> F:
        """Decorator: `function(operator)` is called before the start, to add indices, checks or runnables.

        An async generator function runs on each replica: up to its ``yield`` before the controllers start, the rest
        after they have ended. Its reads need ``uncached=True``, because the caches start at the same time.

        Raises `UsageError` for another ``async`` function, because the operator does not run yet.
        """
        self.setups.append(setup_function(function))
        return function

    def add_hook(self, hook: TelemetryHook) -> None:
        """Add a hook that receives the telemetry of each later `start`, besides the hooks of `start` or `run`."""
        self.hooks.append(hook)

    def rbac(self, *rules: RbacRule, implied: bool = False) -> None:
        """Declare permissions of setup functions, runnables and webhooks.

        Args:
            rules: the permissions.
            implied: a library needs them, not the operator's own code: `assert_rules` does not report them as unused.

        >>> from opsdk import Operator
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
        return self._collect_rules(namespace, self._controller_kinds(), [*self._implied, *self._rules])

    def required_rules(self, *, namespace: str = "default") -> RuleSet:
        """Return the part of `rules` without which the operator does not work.

        It need not follow its policies, nor its definitions without webhooks.
        """
        rules = self.rules(namespace=namespace)
        definitions = definition_rules(self.registered_objects()) if self.webhooks is None else ()
        return rules - RuleSet(
            permission
            for rule in (*definitions, *policy_rules(self.registered_policies()))
            for permission in rule.permissions(cached_namespaces(self.options.cluster.cache))
        )

    def implied_rules(self, *, namespace: str = "default") -> RuleSet:
        """Return the part of `rules` that opsdk declares: for informers, finalizers, election, metrics, webhooks."""
        controllers = [replace(kinds, rules=()) for kinds in self._controller_kinds()]
        return self._collect_rules(namespace, controllers, self._implied)

    def _controller_kinds(self) -> list[ControllerKinds]:
        """Return what the rules of each controller derive from."""
        return [controller.controller_kinds(self.options.controller) for controller in self._controllers]

    def _own_namespace(self, default: str) -> str:
        """Return the operator's own namespace; `default` if the options do not name it."""
        return self.options.namespace or default

    def _collect_rules(
        self, namespace: str, controllers: Iterable[ControllerKinds], declared: Iterable[RbacRule]
    ) -> RuleSet:
        return operator_rules(
            self.options,
            name=self.name,
            namespace=self._own_namespace(namespace),
            controllers=controllers,
            declared=declared,
            registered=self.registered_objects(),
            policies=self.registered_policies(),
            serves_webhooks=self.webhooks is not None,
        )

    # -------------------------------------------------------------- what follows
    @property
    def field_owner(self) -> str:
        """The field owner of its writes."""
        return self.options.cluster.field_owner or self.name

    @property
    def modules(self) -> set[str]:
        """Names of the modules with reconcilers and daemons."""
        functions = [declared.target for declared in self.reconcilers if declared.target is not keep_daemons]
        for declared in self.reconcilers:
            daemons = declared.options.get("daemons", ())
            functions += [each.function if isinstance(each, DaemonSpec) else each for each in daemons]
        return {getattr(function, "__module__", "") for function in functions}

    def controller_options(self, name: str, kind: KindLike[Any]) -> ControllerOptions:
        """Return the options of a controller of `kind` that has none of its own."""
        default = self.options.controller
        daemon = next((each for each in self._controllers if each.name == name and each.is_daemon), None)
        options = default if daemon is None else daemon.effective_options(default)
        workers = self.options.max_concurrent_reconciles_by_kind.get(str(kind_of(kind).gvk.group_kind))
        return options if workers is None else replace(options, max_concurrent_reconciles=workers)

    def custom_kinds(self) -> list[type[Object[Any, Any]]]:
        """Return the classes with a CustomResourceDefinition among the kinds that `reconciler` declared."""
        return _custom_kinds(_reconciled(controller.kinds for controller in self._controllers))

    def related_kinds(self) -> list[type[Object[Any, Any]]]:
        """Return the classes with a CustomResourceDefinition that controllers own or watch, and none reconciles."""
        controllers = self._controller_kinds()
        reconciled = {controller.kind.gvk for controller in controllers if controller.kind is not None}
        related = [kind for controller in controllers for kind in (*controller.owns, *controller.watches)]
        return _custom_kinds(kind for kind in related if kind.gvk not in reconciled)

    def followed_kinds(self) -> list[type[Object[Any, Any]]]:
        """Return the classes whose definitions an operator without webhooks follows: of all its controllers.

        An operator of some namespaces follows none: it must be installable without a ClusterRole.
        """
        if self.options.cluster.cache.namespaces:
            return []
        return _custom_kinds(_reconciled(self._controller_kinds()))

    def finalizer_names(self) -> frozenset[str]:
        """Return the names of the finalizers that `reconciler` declared, and those of ``delete_in_reverse``."""
        declared = {name for controller in self._controllers for name in controller.finalizers}
        default = self.options.controller
        deleting = (each.name for each in self._controllers if each.deletes_children(default))
        return frozenset(declared.union(children_finalizer(self.field_owner, name) for name in deleting))

    @property
    def converters(self) -> dict[GroupKind, Converter]:
        """The declared converters of custom resources, by kind."""
        return self.webhooks.converters if self.webhooks is not None else {}

    @property
    def has_setup(self) -> bool:
        """Whether functions are called before the start, see `setup`. They may add indices to the cluster's cache."""
        return bool(self.setups)

    @property
    def served_webhooks(self) -> DeclaredWebhooks | None:
        """The declared webhooks if this process serves them, so that a webhook server runs; else None."""
        return self.webhooks if "webhooks" in self.options.components else None

    @property
    def has_webhooks(self) -> bool:
        """Whether a webhook server runs, see `served_webhooks`."""
        return self.served_webhooks is not None

    def definitions(self, client_config: WebhookClientConfig | None = None) -> list[JsonObject]:
        """Return one CustomResourceDefinition for each reconciled class, with the other versions of its converter.

        Args:
            client_config: how the API server reaches the webhook server, for conversions; default: from
                `WebhookServerOptions.certificates`.

        Raises:
            UsageError: versions are converted, and the address of the webhook server is not known.
        """
        if self.webhooks is None:
            from opsdk.apimachinery.crd import crds_for  # noqa: PLC0415 - start-up time: commands print definitions

            return crds_for(self.custom_kinds())
        return self.webhooks.definitions(self.custom_kinds(), self._client_config(client_config))

    def webhook_configurations(self, client_config: WebhookClientConfig | None = None) -> list[JsonObject]:
        """Return the configurations of the declared admission webhooks; empty without any.

        Args:
            client_config: as for `definitions`.

        Raises:
            UsageError: see `definitions`.
        """
        if self.webhooks is None:
            return []
        client_config = self._client_config(client_config)
        if client_config is None:
            text = "set WebhookServerOptions.certificates, or pass client_config"
            raise UsageError(f"the API server must call this operator: {text}")
        return self.webhooks.configurations(client_config, name=self._configurations_name)

    def registered_objects(self) -> list[RegisteredObject]:
        """Return what the operator registers at the API server and follows; without webhooks, its definitions."""
        if self.webhooks is None:
            from opsdk.webhook.registered.definitions import registered_definitions  # noqa: PLC0415 - start-up time: after the start

            return registered_definitions(self.followed_kinds())
        certificates = self.options.webhook.certificates
        return self.webhooks.registered_objects(self.custom_kinds(), certificates, name=self._configurations_name)

    def admission_policies(self) -> list[JsonObject]:
        """Return the objects of the policies that `add_policy` added: each policy, then its bindings."""
        if not self.policies:
            return []
        from opsdk.webhook.policies import policy_objects  # noqa: PLC0415 - start-up time: most operators have none

        return policy_objects(self.policies, self.name)

    def registered_policies(self) -> list[RegisteredPolicy]:
        """Return the policies and bindings that the operator follows; none for an operator of some namespaces."""
        if not self.policies or self.options.cluster.cache.namespaces:
            return []
        from opsdk.webhook.registered.policies import registered_policies  # noqa: PLC0415 - start-up time: as above

        return registered_policies(self.admission_policies())

    def _client_config(self, client_config: WebhookClientConfig | None) -> WebhookClientConfig | None:
        """Return `client_config`, or the one from the options."""
        certificates = self.options.webhook.certificates
        if client_config is None and certificates is not None:
            return certificates.client_config()
        return client_config

    @property
    def _configurations_name(self) -> str:
        certificates = self.options.webhook.certificates
        return (certificates.configurations if certificates is not None else "") or self.name


def _reconciled(controllers: Iterable[ControllerKinds]) -> Iterator[Kind[AnyObject]]:
    return (controller.kind for controller in controllers if controller.kind is not None)


def _custom_kinds(kinds: Iterable[Kind[AnyObject]]) -> list[type[Object[Any, Any]]]:
    classes = [kind.representation for kind in kinds]
    return list(dict.fromkeys(cls for cls in classes if issubclass(cls, Object)))
