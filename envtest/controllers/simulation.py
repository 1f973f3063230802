"""Which simulated controllers there are, and how they are switched on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envtest.controllers.accounts import ServiceAccountController, Sign, TokenController
from envtest.controllers.api import Api
from envtest.controllers.cluster_roles import ClusterRoleController
from envtest.controllers.cronjobs import CronJobController
from envtest.controllers.daemonsets import DaemonSetController
from envtest.controllers.deployments import DeploymentController
from envtest.controllers.disruption import DisruptionController
from envtest.controllers.garbage_collector import GarbageCollector
from envtest.controllers.jobs import JobController
from envtest.controllers.loops import Controller, Kit, Runner
from envtest.controllers.mirror import Hub
from envtest.controllers.namespace_content import NamespaceController
from envtest.controllers.nodes import DEFAULT_STAGES, KubeletController, Stage
from envtest.controllers.quotas import QuotaController
from envtest.controllers.replicasets import ReplicaSetController
from envtest.controllers.services import EndpointsController, SliceController
from envtest.controllers.statefulsets import StatefulSetController
from envtest.controllers.volumes import VolumeController
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

Maker = Callable[[Kit], Controller]


def _no_certificate() -> str:
    return ""


def _no_signature(_: Mapping[str, Any]) -> str:
    return ""


def _makers(
    stages: Sequence[Stage] = (),
    certificate: Callable[[], str] = _no_certificate,
    sign: Sign = _no_signature,
) -> Mapping[str, Maker]:
    simple = (
        GarbageCollector,
        NamespaceController,
        DeploymentController,
        ReplicaSetController,
        StatefulSetController,
        DaemonSetController,
        JobController,
        CronJobController,
        DisruptionController,
        SliceController,
        EndpointsController,
        VolumeController,
        ClusterRoleController,
        QuotaController,
    )
    return {
        **{c.name: c for c in simple},
        ServiceAccountController.name: lambda kit: ServiceAccountController(kit, certificate),
        TokenController.name: lambda kit: TokenController(kit, certificate, sign),
        KubeletController.name: lambda kit: KubeletController(kit, stages),
    }


CONTROLLERS = frozenset(_makers())
"""The names of all controllers."""


def chosen(wanted: str | Collection[str]) -> frozenset[str]:
    """The names that are meant: ``none``, ``cluster``, one name, several with commas between, or a collection.

    Raises:
        ConfigError: no controller has that name.
    """
    names = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    found: set[str] = set()
    for name in names:
        found |= CONTROLLERS if name == CLUSTER else set() if name in (NONE, "") else {name}
    unknown = found - CONTROLLERS
    if unknown:
        listed = ", ".join([NONE, CLUSTER, *sorted(CONTROLLERS)])
        bad = ", ".join(map(repr, sorted(unknown)))
        raise ConfigError(f"no simulated controller is called {bad}; there are: {listed}")
    return frozenset(found)


def simulate(
    plane: ControlPlane,
    tokens: TokenAuthenticator,
    wanted: str | Collection[str],
    *,
    stages: Sequence[Stage] = DEFAULT_STAGES,
    certificate: Callable[[], str] = _no_certificate,
) -> Runner:
    """The runner of the wanted controllers, to be started; it works as users that are added to the plane's `tokens`.

    `stages` say what becomes of pods; `certificate` gives the certificates (PEM) that clients in the cluster trust.
    """
    kit = Kit(
        hub=Hub(plane.storage, _resources(plane)),
        api=_api(plane, tokens, _MANAGER, User(name=f"system:{_MANAGER}", groups=(MASTERS,))),
        kubelet=_api(plane, tokens, _AGENT, User(name="system:node:node-1", groups=(MASTERS, "system:nodes"))),
        clock=plane.clock,
    )
    names = chosen(wanted)
    return Runner(
        kit, [make(kit) for name, make in _makers(stages, certificate, plane.access.key.sign).items() if name in names]
    )


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
