"""Which simulated controllers there are, and how they are switched on."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from envtest.controllers.api import Api
from envtest.controllers.loops import Certify, Controller, Kit, Runner, no_authority
from envtest.controllers.mirror import Hub
from envtest.controllers.stages import DEFAULT_STAGES, Stage
from envtest.controllers.writes import Resource
from opsdk.apiserver.auth.authentication import TokenAuthenticator
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.errors import ConfigError

if TYPE_CHECKING:
    from envtest.control_plane import ControlPlane

NONE = "none"
"""No controllers: a bare API server."""
CLUSTER = "cluster"
"""All of them."""
_MANAGER = "kube-controller-manager"
_AGENT = "kubelet"

_WHERE: Mapping[str, str] = {
    "garbage-collector": "garbage_collector:GarbageCollector",
    "namespace": "namespace_content:NamespaceController",
    "deployment": "deployments:DeploymentController",
    "replicaset": "replicasets:ReplicaSetController",
    "replicationcontroller": "replicasets:ReplicationControllerController",
    "statefulset": "statefulsets:StatefulSetController",
    "daemonset": "daemonsets:DaemonSetController",
    "job": "jobs:JobController",
    "ttl-after-finished": "ttl:TtlController",
    "cronjob": "cronjobs:CronJobController",
    "disruption": "disruption:DisruptionController",
    "endpointslice": "services:SliceController",
    "endpoints": "services:EndpointsController",
    "endpointslice-mirroring": "mirroring:MirroringController",
    "persistentvolume-binder": "volumes:VolumeController",
    "clusterrole-aggregation": "cluster_roles:ClusterRoleController",
    "resourcequota": "quotas:QuotaController",
    "serviceaccount": "accounts:ServiceAccountController",
    "serviceaccount-token": "accounts:TokenController",
    "certificatesigningrequest-approving": "signing:ApprovingController",
    "certificatesigningrequest-signing": "signing:SigningController",
    "certificatesigningrequest-cleaner": "signing:CleaningController",
    "node-lifecycle": "node_lifecycle:NodeLifecycleController",
    "taint-eviction": "node_lifecycle:TaintEvictionController",
    "pod-garbage-collector": "pod_collector:PodCollector",
    "kubelet": "nodes:KubeletController",
}
"""Module and class by name: what is not wanted is not even loaded."""
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
"""Other names that kube-controller-manager has, or had, for what one controller does here."""
CONTROLLERS = frozenset(_WHERE)
"""The names of all controllers."""


def chosen(wanted: str | Collection[str]) -> frozenset[str]:
    """The names that are meant.

    ``none``, ``cluster`` (also ``*``), one name, several with commas between, or a collection. The ending
    ``-controller`` may be there, and a name with ``-`` before it is left out, as for kube-controller-manager.

    Raises:
        ConfigError: no controller has that name.
    """
    names = [n.strip() for n in (wanted.split(",") if isinstance(wanted, str) else wanted)]
    found: set[str] = set()
    without: set[str] = set()
    for name in names:
        if name in (CLUSTER, "*"):
            found |= CONTROLLERS
        elif name.startswith("-"):
            without.add(_meant(name[1:]))
        elif name not in (NONE, ""):
            found.add(_meant(name))
    unknown = (found | without) - CONTROLLERS
    if unknown:
        listed = ", ".join([NONE, CLUSTER, *sorted(CONTROLLERS)])
        bad = ", ".join(map(repr, sorted(unknown)))
        raise ConfigError(f"no simulated controller is called {bad}; there are: {listed}")
    return frozenset(found - without)


def _meant(name: str) -> str:
    short = name.removesuffix("-controller")
    return _ALIASES.get(short, short)


def _class(name: str) -> Callable[[Kit], Controller]:
    module, _, found = _WHERE[name].partition(":")
    made: Callable[[Kit], Controller] = getattr(importlib.import_module(f"envtest.controllers.{module}"), found)
    return made


def simulate(
    plane: ControlPlane,
    tokens: TokenAuthenticator,
    wanted: str | Collection[str],
    *,
    stages: Sequence[Stage] = DEFAULT_STAGES,
    certificate: Callable[[], str] = str,
    certify: Certify = no_authority,
) -> Runner:
    """The runner of the wanted controllers, to be started; it works as users that are added to the plane's `tokens`.

    `stages` say what becomes of pods; `certificate` gives the certificates (PEM) that clients in the cluster trust,
    `certify` makes more.
    """
    names = chosen(wanted)
    plane.components.simulated = bool(names)
    kit = Kit(
        hub=Hub(plane.storage, _resources(plane) if names else ()),
        api=_api(plane, tokens, _MANAGER, User(name=f"system:{_MANAGER}", groups=(MASTERS,))),
        kubelet=_api(plane, tokens, _AGENT, User(name="system:node:node-1", groups=(MASTERS, "system:nodes"))),
        clock=plane.clock,
        stages=stages,
        certificate=certificate,
        sign=plane.access.key.sign,
        certify=certify,
    )
    return Runner(kit, [_class(name)(kit) for name in _WHERE if name in names])


def _api(plane: ControlPlane, tokens: TokenAuthenticator, manager: str, user: User) -> Api:
    token = secrets.token_urlsafe(24)
    tokens.add(token, user)
    return Api(plane.server, token=token, manager=manager)


def _resources(plane: ControlPlane) -> Iterable[Resource]:
    """Every built-in kind; events once, though two groups serve them."""
    for store in plane.stores.values():
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
