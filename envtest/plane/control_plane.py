"""Assemble the API server: storage, built-in kinds, extensions, discovery, bootstrap objects.

Upstream: pkg/controlplane/instance.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from weakref import WeakKeyDictionary, WeakValueDictionary

from envtest.admission import plugins
from envtest.core_server import CoreServer
from envtest.data.messages import write_protobuf
from envtest.data.resources import ServedResourceRow, rows
from envtest.data.schemas import Types
from envtest.data.versions import DEFAULT, VERSIONS
from envtest.extensions.custom_resource import CustomModel
from envtest.extensions.custom_resource_definition import DEFINITIONS, DefinitionStrategy
from envtest.extensions.custom_resource_definition import defaults as definition_defaults
from envtest.extensions.openapi import published
from envtest.extensions.server import ExtensionServer
from envtest.groups.admissionregistration.rest import GUARDED, PolicyStore
from envtest.groups.authentication.rest import GROUP as AUTHENTICATION
from envtest.groups.authentication.rest import SelfSubjectReviews, TokenReviews
from envtest.groups.authorization.rest import GROUP as AUTHORIZATION
from envtest.groups.authorization.rest import AccessReviews, RulesReviews, review_subject, self_subject
from envtest.groups.autoscaling.conversion import OldAutoscalerModel
from envtest.groups.certificates.strategy import ApprovalStrategy, SignatureStrategy, SigningRequestStrategy
from envtest.groups.common.defaulting import Defaults
from envtest.groups.common.model import TypedModel, generated_typing
from envtest.groups.common.scale import ScaleStore
from envtest.groups.converted_kinds import versions_of
from envtest.groups.core.address_pool import DEFAULT_RANGE
from envtest.groups.core.rest import service_account_token
from envtest.groups.core.rest.binding import BindingStore
from envtest.groups.core.rest.component_status import ComponentStatuses
from envtest.groups.core.rest.pod_exec import RunStore
from envtest.groups.core.rest.pod_log import LogStore
from envtest.groups.core.rest.proxy import ProxyRest
from envtest.groups.core.rest.responders import Responders
from envtest.groups.core.rest.service_account_token import TokenRequests
from envtest.groups.core.strategy.namespace import NamespaceFinalizeStrategy
from envtest.groups.core.strategy.pod import EphemeralStrategy, ResizeStrategy
from envtest.groups.core.strategy.service import ServiceStrategy
from envtest.groups.events.conversion import EventModel
from envtest.groups.policy.rest import EvictionStore
from envtest.groups.rbac.rest import GROUP as RBAC
from envtest.groups.rbac.rest import GuardedStore
from envtest.groups.registry import catalogue
from envtest.groups.resource.rest import CLAIMS, ClaimStore
from envtest.plane import admission_policies, admission_webhooks
from envtest.plane.admission_webhooks import ServiceResolver
from envtest.plane.aggregation import aggregate, register
from envtest.plane.authenticators import AccessOptions, Authenticators
from envtest.plane.bootstrap import SERVER, bootstrap
from envtest.plane.compaction import INTERVAL, Compactor
from envtest.plane.event_expiry import EVENTS, EventExpiry
from envtest.plane.flow_control import FlowControl
from envtest.plane.health import CHECKS
from envtest.plane.metrics import Metrics
from opsdk.aio.clock import loop_time
from opsdk.apiserver.admission.chain import Chain
from opsdk.apiserver.admission.lifecycle import NamespaceLifecycle
from opsdk.apiserver.admission.webhooks.match_conditions import MatchConditions
from opsdk.apiserver.auth.authorization import RuleResolver
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import ServedGroup
from opsdk.apiserver.endpoints.filters import NamedFilter
from opsdk.apiserver.endpoints.managed_fields import field_manager
from opsdk.apiserver.endpoints.openapi.v3 import OpenApi
from opsdk.apiserver.endpoints.routes import NonResourceRoutes
from opsdk.apiserver.metrics import StorageMetrics
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.subresources import ReadableStore, StatusStore, UpdateStore
from opsdk.apiserver.resources import InstalledResource, ResourceInfo
from opsdk.apiserver.server import Delegate, NotFound, ResourceServer, Server
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage
from opsdk.apiserver.webhook_client.client import WebhookClient
from opsdk.apiserver.webhook_client.connection_pools import ClientCertificate, ConnectionPools
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject

_MODELS: Mapping[tuple[str, str, str], type[TypedModel]] = {
    ("", "v1", "Event"): EventModel,
    ("events.k8s.io", "v1", "Event"): EventModel,
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): OldAutoscalerModel,
}
"""Kinds with a served version that differs from the storage version."""


def version_info(kubernetes: str) -> dict[str, str]:
    """Return the body of ``/version``; clients derive supported features from it."""
    version = VERSIONS[kubernetes]
    minor = str(version.minor)
    return {
        "major": "1",
        "minor": minor,
        "emulationMajor": "1",
        "emulationMinor": minor,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(version.minor - 1),
        "gitVersion": version.git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": version.build_date,
        "goVersion": version.go_version,
        "compiler": "gc",
        "platform": "linux/amd64",
    }


class TableSchemas:
    """The OpenAPI schemas of a version's built-in kinds."""

    def __init__(self, types: Types) -> None:
        self._types = types

    def schema(self, name: str) -> JsonObject | None:
        return self._types.schema(name)

    def name_of(self, served: InstalledResource) -> str | None:
        return served.model.name if isinstance(served.model, TypedModel) else None

    def digest_of(self, served: InstalledResource) -> str | None:
        return self.name_of(served)  # the version of the server, which documents have too, decides about the schema


class CustomSchemas:
    """The OpenAPI schemas of custom resources, by the names that `CustomModel` gives them.

    A schema lives as long as its definition is served.
    """

    def __init__(self) -> None:
        self._served: WeakValueDictionary[str, InstalledResource] = WeakValueDictionary()
        self._published: WeakKeyDictionary[CustomModel, JsonObject] = WeakKeyDictionary()

    def schema(self, name: str) -> JsonObject | None:
        served = self._served.get(name)
        if served is None:
            return None
        assert isinstance(served.model, CustomModel)
        schema = self._published.get(served.model)
        if schema is None:
            model = served.model
            schema = self._published[model] = published(served.info, model.raw, model.selectable)
        return schema

    def name_of(self, served: InstalledResource) -> str | None:
        if not isinstance(served.model, CustomModel):
            return None
        if not served.info.subresource:
            self._served[served.model.schema_name] = served
        return served.model.schema_name

    def digest_of(self, served: InstalledResource) -> str | None:
        return served.model.digest if isinstance(served.model, CustomModel) else None


class _DeferredDelegate:
    """A delegate that is set after its predecessor in the chain is built."""

    target: Delegate = NotFound()

    async def handle(self, call: Call) -> HttpResponse:
        return await self.target.handle(call)

    def groups(self) -> Sequence[ServedGroup]:
        return self.target.groups()


class ControlPlane:
    """One API server with its objects.

    Attributes:
        kubernetes: the version of Kubernetes that the server serves, such as ``1.36``.
        storage: the storage of all objects.
        stores: the registries of the built-in resources by ``group/resource``.
        core: the server of the built-in resources.
        server: the outermost server; ``server.app`` is the ASGI application.
        aggregator: the first server of the delegation chain; close it if it calls other servers.
    """

    def __init__(
        self,
        *,
        storage: LocalStorage | None = None,
        access: AccessOptions | None = None,
        service_range: IPv4Network = DEFAULT_RANGE,
        choice: plugins.PluginSelection = plugins.PluginSelection(),  # noqa: B008 - frozen
        identity: Callable[[], ClientCertificate] | None = None,
        compaction_interval: float = INTERVAL,
        kubernetes: str = DEFAULT,
    ) -> None:
        self.kubernetes = kubernetes
        self._service_range = service_range
        self.storage: LocalStorage = storage or MemoryStorage()
        self.access = Authenticators(access or AccessOptions(), self.storage)
        self.typing = generated_typing(kubernetes)
        self.catalogue = catalogue({DEFINITIONS: DefinitionStrategy}, {DEFINITIONS: definition_defaults})
        self.stores: dict[str, LocalStore] = {}
        self.responders = Responders()
        self.components = ComponentStatuses()
        self.webhook_client = WebhookClient(resolve=ServiceResolver(self.stores))
        late, admission = _DeferredDelegate(), Chain()
        self.core = CoreServer(
            storage=self.storage,
            stores=self.stores,
            resources=ResourceServer(late, admission),
            admission=admission,
            authorizer=self.access.authorizer,
            git_version=VERSIONS[kubernetes].git_version,
        )
        self._install_all()
        self.extensions = late.target = self._extensions()
        lifecycle = NamespaceLifecycle(self._namespace, self.stores["/namespaces"].info)
        admission.add("NamespaceLifecycle", lifecycle)
        match_conditions = MatchConditions(self.access.authorizer)
        hooks = admission_webhooks.install(self.core, self.extensions, self.webhook_client, match_conditions)
        admission_policies.install(self.core, hooks)
        plugins.install(self.core, choice)
        self.expiry = EventExpiry(self.storage)
        self.compactor = Compactor(self.storage, interval=compaction_interval)
        self.auto_registration = register(self.core, self.extensions)
        self.aggregator = aggregate(self.core, ConnectionPools(self.webhook_client.apps, identity=identity))
        self.server = Server(
            self.aggregator,
            well_known=self._well_known,
            authenticators=self.access.authenticators,
            authorizer=self.access.observed,
            anonymous=self.access.anonymous,
            protobuf=partial(write_protobuf, version=kubernetes),
        )
        self.flows = FlowControl(self.storage)
        self.server.filters.insert_after("impersonate", NamedFilter("priority-and-fairness", self.flows))

    def __repr__(self) -> str:
        return f"<ControlPlane with {self.storage!r}>"

    def _extensions(self) -> ExtensionServer:
        store = self.stores[DEFINITIONS]
        group, _, resource = DEFINITIONS.partition("/")
        served = self.core.resources.find(group, "v1", resource)
        assert served is not None
        assert isinstance(store.strategy, DefinitionStrategy)
        client = self.webhook_client
        server = ExtensionServer(
            store, served.model, NotFound(), self.core.admission, self.typing.decoders, client=client
        )
        scale = self.core.resources.find("apps", "v1", "deployments", "scale")
        assert scale is not None
        assert isinstance(scale.model, TypedModel)
        server.use_scale(scale.model)
        store.strategy.on_changed = server.on_changed
        return server

    def _reserve(self) -> None:
        """Allocate the addresses and ports of stored services."""
        services = self.stores["/services"]
        assert isinstance(services.strategy, ServiceStrategy)
        services.strategy.pool.range = self._service_range
        services.strategy.addresses = self.stores["networking.k8s.io/ipaddresses"]
        services.strategy.pool.clear()
        for obj in services.list_now():
            services.strategy.pool.take(obj)

    def rederive(self) -> None:
        """Rebuild all derived state after the storage was restored to another state."""
        self._reserve()
        self.extensions.reload()
        self.auto_registration.reload()

    async def start(self) -> None:
        """Create the bootstrap objects that are missing."""
        self.storage.metrics = StorageMetrics(loop_time())
        self._reserve()
        self.extensions.load()
        self.auto_registration.start(
            (served.info.group, served.info.version) for served in self.core.resources.installed()
        )
        await bootstrap(self.core)
        self.expiry.start()
        self.compactor.start()
        self.flows.start()
        self.aggregator.start()

    def keys(self) -> frozenset[str]:
        """Return the storage keys of all built-in objects."""
        return frozenset(key for store in self.stores.values() for key, _ in self.storage.list_now(store.prefix).items)

    def end_watches(self) -> None:
        """End every watch; the storage still works."""
        self.storage.end_watches()

    def close(self) -> None:
        """End every watch and close the files."""
        self.expiry.close()
        self.compactor.close()
        self.storage.close()

    def _well_known(self, server: Server) -> NonResourceRoutes:
        version = version_info(self.kubernetes)
        openapi = OpenApi(
            server.groups,
            [TableSchemas(self.typing.types), CustomSchemas()],
            title="Kubernetes",
            version=version["gitVersion"],
        )
        metrics = Metrics(self.stores, version, CHECKS, admission=self.core.admission.metrics, storage=self.storage)
        server.hooks.append(metrics)
        pages = {**self.access.pages(), **metrics.pages()}
        return NonResourceRoutes(
            server.groups,
            version=version,
            openapi=openapi,
            checks=CHECKS,
            pages=pages,
            storage_failure=lambda: self.storage.failure,
        )

    # -------------------------------------------------------------- installing
    def _install_all(self) -> None:
        """Install every built-in resource, its subresources, and the reviews."""
        table = rows(self.kubernetes)
        with_status = {(r.info.group, r.info.resource) for r in table if r.info.subresource == "status"}
        for row in table:
            if not row.info.subresource and "list" in row.verbs and "create" in row.verbs:
                self._install_main(row, has_status=(row.info.group, row.info.resource) in with_status)
        for row in table:
            if row.info.subresource:
                self._install_subresource(row)
            elif "create" not in row.verbs or "list" not in row.verbs:
                # Virtual resources: only create is supported, and nothing is stored.
                authorizer = self.access.authorizer
                resolver = authorizer if isinstance(authorizer, RuleResolver) else None
                reviews: dict[str, object] = {
                    "/componentstatuses": self.components,
                    "/bindings": BindingStore(self.stores["/pods"]),
                    f"{AUTHENTICATION}/selfsubjectreviews": SelfSubjectReviews(),
                    f"{AUTHENTICATION}/tokenreviews": TokenReviews(self.access.bearer),
                    f"{AUTHORIZATION}/subjectaccessreviews": AccessReviews(authorizer, subject=review_subject),
                    f"{AUTHORIZATION}/localsubjectaccessreviews": AccessReviews(
                        authorizer, subject=review_subject, local=True
                    ),
                    f"{AUTHORIZATION}/selfsubjectaccessreviews": AccessReviews(authorizer, subject=self_subject),
                    f"{AUTHORIZATION}/selfsubjectrulesreviews": RulesReviews(resolver),
                }
                storage = reviews.get(f"{row.info.group}/{row.info.resource}")
                if storage is not None:
                    self.core.resources.install(InstalledResource(row.info, storage, self._model(row), row.verbs))

    def _budget_with_managed_fields(self, old: JsonObject, new: JsonObject, now: str) -> JsonObject:
        """Return a budget with managedFields of the server for its status change."""
        served = self.core.resources.find("policy", "v1", "poddisruptionbudgets", "status")
        return new if served is None else field_manager(served).update(old, new, manager=SERVER, now=now)

    def _namespace(self, name: str) -> JsonObject | None:
        store = self.stores["/namespaces"]
        try:
            return self.storage.get_now(store.key("", name))
        except KeyNotFoundError:
            return None

    def _model(self, row: ServedResourceRow, defaults: Defaults | None = None) -> TypedModel:
        info = row.info
        name = self.typing.types.name_of(info.kind_group or info.group, info.kind_version or info.version, info.kind)
        if name is None:
            raise LookupError(f"the tables have no type for {info.kind}")
        model_class = _MODELS.get((info.group, info.version, info.kind), TypedModel)
        defaults = defaults or (None if row.info.kind_group else self.catalogue.defaults_of(row))
        return model_class(self.typing, name, defaults=defaults, printer=self.catalogue.printer(row))

    def _install_main(self, row: ServedResourceRow, *, has_status: bool) -> None:
        """Install a stored resource with the store of its kind."""
        strategy = self.catalogue.strategy(row, has_status=has_status)
        key = f"{row.info.group}/{row.info.resource}"
        prefix = EVENTS if key in ("/events", "events.k8s.io/events") else ""
        if row.info.group == RBAC:
            guard, rbac = self.access.authorizer, self.access.rbac
            store: LocalStore = GuardedStore(self.storage, row.info, strategy, authorizer=guard, rbac=rbac)
        elif key in GUARDED:
            store = PolicyStore(
                self.storage,
                row.info,
                strategy,
                authorizer=self.access.authorizer,
                resolve=admission_policies.ParamKinds(self.core).resource,
                stores=self.stores,
            )
        elif key in CLAIMS:
            store = ClaimStore(self.storage, row.info, strategy, stores=self.stores)
        else:
            store = LocalStore(self.storage, row.info, strategy, prefix=prefix)
        self.stores[key] = store
        versions = versions_of(self.typing, row.info.api_version, row.info.kind)
        self.core.resources.install(InstalledResource(row.info, store, self._model(row), row.verbs, versions=versions))

    def _install_subresource(self, row: ServedResourceRow) -> None:
        """Install an implemented subresource; discovery lists only these."""
        store = self.stores.get(f"{row.info.group}/{row.info.resource}")
        main = self.core.resources.find(row.info.group, row.info.version, row.info.resource)
        if store is None or main is None:
            return
        own = self._own_subresource(row, store)
        if own is not None:
            self.core.resources.install(InstalledResource(row.info, own, self._model(row)))
            return
        part = self._part(row, store, main.info)
        if part is not None:
            info = replace(main.info, subresource=row.info.subresource)
            self.core.resources.install(InstalledResource(info, part, main.model, versions=main.versions))
            return
        far = self._remote(row, store)
        if far is not None:
            self.core.resources.install(InstalledResource(row.info, far, main.model))
        elif row.info.subresource == "token":
            tokens = TokenRequests(store, self.access.key, self.access.find, self.access.names)
            self.core.resources.install(
                InstalledResource(row.info, tokens, self._model(row, service_account_token.defaults))
            )

    def _own_subresource(
        self, row: ServedResourceRow, store: LocalStore
    ) -> ScaleStore | BindingStore | EvictionStore | None:
        """Return the store of a subresource with its own kind, or None."""
        match row.info.subresource:
            case "scale":
                return ScaleStore(store)
            case "binding":
                return BindingStore(store)
            case "eviction":
                return EvictionStore(
                    store, self.stores["policy/poddisruptionbudgets"], self._budget_with_managed_fields
                )
            case _:
                return None

    @staticmethod
    def _part(row: ServedResourceRow, store: LocalStore, main: ResourceInfo) -> UpdateStore | None:
        """Return the store of a subresource that changes one part of the object."""
        whole = ServedResourceRow(main, (), row.kubernetes)
        match row.info.subresource:
            case "status" if isinstance(store.strategy, SigningRequestStrategy):
                return StatusStore(store, SignatureStrategy(store.strategy))
            case "status":
                return StatusStore(store)
            case "approval":
                return ReadableStore(store, ApprovalStrategy(store.strategy))
            case "finalize":
                return UpdateStore(store, NamespaceFinalizeStrategy(whole))
            case "ephemeralcontainers":
                return ReadableStore(store, EphemeralStrategy(whole, has_status=True))
            case "resize":
                return ReadableStore(store, ResizeStrategy(whole, has_status=True))
            case _:
                return None

    def _remote(self, row: ServedResourceRow, store: LocalStore) -> LogStore | RunStore | ProxyRest | None:
        """Return the store of a subresource that connects to a pod, node or service; None for others."""
        match row.info.subresource:
            case "log":
                return LogStore(store, self.stores["/nodes"], self.responders)
            case "exec" | "attach" | "portforward" as kind:
                return RunStore(store, self.stores["/nodes"], kind, self.responders)
            case "proxy":
                return ProxyRest(store, self.responders, endpoints=self.stores["/endpoints"], pods=self.stores["/pods"])
            case _:
                return None
