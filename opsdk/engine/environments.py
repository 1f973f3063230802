"""The environments of runs: local API servers with the objects of a snapshot."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Final

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.engine.running_environment import ForkEnvironment, RunningEnvironment
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "EnvironmentFactory",
    "KubernetesKind",
    "environment_factory",
    "import_envtest",
    "kind_of_versions",
    "local_version",
]

EnvironmentFactory = Callable[[ClusterSnapshot], AbstractAsyncContextManager[ForkEnvironment]]
"""Makes the environment of a run, with the objects of a snapshot."""
DefinedEnvironment = Callable[[Sequence[JsonObject]], AbstractAsyncContextManager[RunningEnvironment]]
"""Makes an environment that serves some definitions."""
_HISTORY: Final = 200
"""Writes that are kept. Only a watch that breaks needs them, and a run adds the writes up itself."""
_WRITES: Final = 2_000
_WRITES_PER_OBJECT: Final = 10


def import_envtest(use: str) -> Any:
    """Return the module envtest. It is an extra: plans and proofs run on it, operators do not need it.

    Args:
        use: what needs it, to begin the error with.

    Raises:
        UsageError: envtest is not installed.
    """
    if importlib.util.find_spec("envtest") is None:
        raise UsageError(f"{use} on a local API server: pip install 'opsdk[envtest]'")
    import envtest  # noqa: PLC0415 - an extra; it imports opsdk

    return envtest


def local_version(version: str | None) -> str:
    """Return the version of Kubernetes that a local API server serves, such as ``1.36``.

    Args:
        version: as an option names it; None for ``OPSDK_KUBERNETES_VERSION``, or the default.

    Raises:
        ConfigError: it is not a version, or envtest does not serve it. The message has the known ones.
        UsageError: envtest is not installed.
    """
    import_envtest("a version of Kubernetes is served")
    from envtest.data.versions import chosen_version  # noqa: PLC0415 - an extra; it imports opsdk

    return chosen_version(version)


class KubernetesKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of Kubernetes that can be created and updated.

    Attributes:
        namespaced: whether its objects are in namespaces.
        versions: of Kubernetes that serve it.
    """

    namespaced: bool
    versions: tuple[str, ...]


@cache
def _kinds() -> Mapping[GroupVersionKind, KubernetesKind]:
    from envtest.data.resources import rows  # noqa: PLC0415 - an extra; it imports opsdk
    from envtest.data.versions import VERSIONS  # noqa: PLC0415 - as above

    kinds: dict[GroupVersionKind, KubernetesKind] = {}
    for version in VERSIONS:
        for row in rows(version):
            info = row.info
            if info.subresource or not {"create", "update"}.issubset(row.verbs):
                continue
            gvk = GroupVersionKind(info.group, info.version, info.kind)
            before = kinds[gvk].versions if gvk in kinds else ()
            kinds[gvk] = KubernetesKind(namespaced=info.namespaced, versions=(*before, version))
    return kinds


def kind_of_versions(gvk: GroupVersionKind) -> KubernetesKind | None:
    """Return a kind that some version of Kubernetes has; None for custom resources.

    Raises:
        UsageError: envtest is not installed.
    """
    import_envtest("objects are checked")
    return _kinds().get(gvk)


def environment_factory(*, controllers: str = "cluster", kubernetes: str | None = None) -> EnvironmentFactory:
    """Return a function that makes the environment of a run.

    Args:
        controllers: that are simulated; ``none`` where those of a real cluster do their work.
        kubernetes: the version to serve, as `local_version` takes it.

    Raises:
        ConfigError: that version is not served.
        UsageError: envtest is not installed.
    """
    envtest = import_envtest("a plan runs the operator")
    version = local_version(kubernetes)

    def make(snapshot: ClusterSnapshot) -> AbstractAsyncContextManager[ForkEnvironment]:
        environment: AbstractAsyncContextManager[ForkEnvironment] = envtest.Environment(
            controllers=controllers,
            snapshot=snapshot,
            kubernetes=version,
            history_limit=_HISTORY,
            # Events are not a part of a snapshot or a plan, and are a tenth of the writes of a mass restart.
            controller_events=False,
            # A change of many objects takes no virtual time.
            hot_loop_limit=_WRITES + _WRITES_PER_OBJECT * len(snapshot.objects),
        )
        return environment

    return make


def defined_environment(
    *, controllers: str = "cluster", kubernetes: str | None = None, **options: float
) -> DefinedEnvironment:
    """Return a function that makes the environment of a verification.

    Args:
        controllers: that are simulated.
        kubernetes: the version to serve, as `local_version` takes it.
        options: further ones of ``envtest.Environment``.

    Raises:
        ConfigError: that version is not served.
        UsageError: envtest is not installed.
    """
    envtest = import_envtest("a verification runs the operator")
    version = local_version(kubernetes)

    def make(definitions: Sequence[JsonObject]) -> AbstractAsyncContextManager[RunningEnvironment]:
        environment: AbstractAsyncContextManager[RunningEnvironment] = envtest.Environment(
            controllers=controllers, controller_events=False, crds=definitions, kubernetes=version, **options
        )
        return environment

    return make
