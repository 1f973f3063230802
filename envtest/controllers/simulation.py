"""The simulated controllers by name, and how an environment selects them."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from envtest.controllers.client import InProcessClient
from envtest.controllers.controller import Certify, ControllerContext, Runner, Sign, SimulatedController, no_authority
from envtest.controllers.informers import SharedInformers
from envtest.controllers.ports import NONE
from envtest.controllers.stages import DEFAULT_STAGES, Stage
from envtest.controllers.writes import Resource
from envtest.core_server import CoreServer
from opsdk.apiserver.auth.authentication import TokenAuthenticator
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.server import Server
from opsdk.errors import ConfigError

CLUSTER = "cluster"
"""Selects all controllers."""
_MANAGER = "kube-controller-manager"
_AGENT = "kubelet"

_WHERE: Mapping[str, str] = {
    "garbage-collector": "garbage_collector:GarbageCollector",
    "namespace": "namespace:NamespaceController",
    "deployment": "deployment:DeploymentController",
    "replicaset": "replicaset:ReplicaSetController",
    "replicationcontroller": "replicaset:ReplicationControllerController",
    "statefulset": "statefulset:StatefulSetController",
    "daemonset": "daemonset:DaemonSetController",
    "job": "job:JobController",
    "ttl-after-finished": "ttl_after_finished:TtlController",
    "cronjob": "cronjob:CronJobController",
    "disruption": "disruption:DisruptionController",
    "endpointslice": "endpointslice:SliceController",
    "endpoints": "endpointslice:EndpointsController",
    "endpointslice-mirroring": "endpointslice_mirroring:MirroringController",
    "persistentvolume-binder": "persistent_volume_binder:VolumeController",
    "clusterrole-aggregation": "cluster_role_aggregation:ClusterRoleController",
    "resourcequota": "resource_quota:QuotaController",
    "serviceaccount": "service_account:ServiceAccountController",
    "serviceaccount-token": "service_account:TokenController",
    "certificatesigningrequest-approving": "certificate_signing_request:ApprovingController",
    "certificatesigningrequest-signing": "certificate_signing_request:SigningController",
    "certificatesigningrequest-cleaner": "certificate_signing_request:CleaningController",
    "node-lifecycle": "node_lifecycle:NodeLifecycleController",
    "taint-eviction": "node_lifecycle:TaintEvictionController",
    "pod-garbage-collector": "pods.garbage_collector:PodCollector",
    "kubelet": "kubelet:KubeletController",
}
"""Module and class by name; modules of controllers that are not selected are not imported."""
_ALIASES = {
    "garbagecollector": "garbage-collector",
    "endpoint": "endpoints",
    "nodelifecycle": "node-lifecycle",
    "csrapproving": "certificatesigningrequest-approving",
    "csrsigning": "certificatesigningrequest-signing",
    "csrcleaner": "certificatesigningrequest-cleaner",
    "podgc": "pod-garbage-collector",
    "root-ca-publisher": "serviceaccount",
    "pvc": "persistentvolume-binder",
    "root-ca-certificate-publisher": "serviceaccount",
    "root-ca-cert-publisher": "serviceaccount",
    "persistentvolumeclaim-protection": "persistentvolume-binder",
    "pvc-protection": "persistentvolume-binder",
    "persistentvolume-protection": "persistentvolume-binder",
    "pv-protection": "persistentvolume-binder",
}
"""Aliases: other names in kube-controller-manager of a controller."""
CONTROLLERS = frozenset(_WHERE)
"""The names of all controllers."""


def selected_controllers(controllers: str | Collection[str]) -> frozenset[str]:
    """Return the names of the selected controllers.

    ``none``, ``cluster`` (also ``*``), one name, several separated by commas, or a collection. As in
    kube-controller-manager, the suffix ``-controller`` is optional, and ``-`` before a name disables it.

    Raises:
        ConfigError: a name is unknown.
    """
    names = [n.strip() for n in (controllers.split(",") if isinstance(controllers, str) else controllers)]
    selected: set[str] = set()
    without: set[str] = set()
    for name in names:
        if name in (CLUSTER, "*"):
            selected |= CONTROLLERS
        elif name.startswith("-"):
            without.add(_canonical_name(name[1:]))
        elif name not in (NONE, ""):
            selected.add(_canonical_name(name))
    unknown = (selected | without) - CONTROLLERS
    if unknown:
        listed = ", ".join([NONE, CLUSTER, *sorted(CONTROLLERS)])
        bad = ", ".join(map(repr, sorted(unknown)))
        raise ConfigError(f"no simulated controller is called {bad}; there are: {listed}")
    return frozenset(selected - without)


def _canonical_name(name: str) -> str:
    short = name.removesuffix("-controller")
    return _ALIASES.get(short, short)


def _class(name: str) -> Callable[[ControllerContext], SimulatedController]:
    module, _, class_name = _WHERE[name].partition(":")
    controller_class: Callable[[ControllerContext], SimulatedController] = getattr(
        importlib.import_module(f"envtest.controllers.{module}"),  # noqa: TID251 - those that run are loaded
        class_name,
    )
    return controller_class


def simulate(
    core: CoreServer,
    server: Server,
    tokens: TokenAuthenticator,
    names: Collection[str],
    *,
    sign: Sign,
    stages: Sequence[Stage] = DEFAULT_STAGES,
    certificate: Callable[[], str] = str,
    certify: Certify = no_authority,
    records_events: bool = True,
) -> Runner:
    """Return the runner of the controllers with these names; they write through `server`.

    The tokens of their users are added to `tokens`. `sign` signs service account tokens; `stages` are the rules for
    pods; `certificate` returns the CA certificates (PEM) for clients in the cluster; `certify` signs certificates.
    They record Events if `records_events`.
    """
    context = ControllerContext(
        informers=SharedInformers(core.storage, _resources(core.stores.values()) if names else ()),
        api=_api(server, tokens, core.git_version, _MANAGER, User(name=f"system:{_MANAGER}", groups=(MASTERS,))),
        kubelet=_api(
            server, tokens, core.git_version, _AGENT, User(name="system:node:node-1", groups=(MASTERS, "system:nodes"))
        ),
        stages=stages,
        certificate=certificate,
        sign=sign,
        certify=certify,
        records_events=records_events,
        git_version=core.git_version,
    )
    return Runner(context, [_class(name)(context) for name in _WHERE if name in names])


def _api(server: Server, tokens: TokenAuthenticator, version: str, manager: str, user: User) -> InProcessClient:
    token = secrets.token_urlsafe(24)
    tokens.add(token, user)
    return InProcessClient(server, token=token, manager=manager, version=version)


def _resources(stores: Iterable[LocalStore]) -> Iterable[Resource]:
    """Return every built-in kind; events once, although two groups serve them."""
    for store in stores:
        info = store.info
        if info.kind != "Event" or not info.group:
            yield Resource(
                group=info.group,
                version=info.version,
                plural=info.resource,
                kind=info.kind,
                namespaced=info.namespaced,
                prefix=store.prefix,
            )
