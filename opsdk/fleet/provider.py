"""Providers of the clusters of a fleet: code, kubeconfig files in a directory.

`opsdk.fleet.object_provider` has the providers that follow Secrets and custom resources.

Upstream: sigs.k8s.io/multicluster-runtime/pkg/multicluster/multicluster.go and its providers (v0.21)
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from opsdk.apimachinery.meta import Condition
from opsdk.cache.shard import HashRange
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, UsageError
from opsdk.rbac.rules import RbacRule
from opsdk.rest.config import RestConfig
from opsdk.rest.kubeconfig import config_from_files
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

_SUFFIXES = (".kubeconfig", ".yaml", ".yml", ".conf")
_MAX_SHOWN = 10


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster of a fleet, as its provider describes it.

    Attributes:
        name: unique in the fleet.
        config: address and credentials; None if they are unusable.
        problem: the reason why the configuration is unusable; empty if it is usable.
        shard: cache only the objects of a range of hashes; None for all.
        namespace: cache only this namespace; empty for all.
    """

    name: str
    config: RestConfig | None = None
    problem: str = ""
    shard: HashRange | None = None
    namespace: str = ""


Clusters = Mapping[str, ClusterEntry]
"""All clusters of a fleet by name."""


class ClusterProvider(ABC):
    """Finds clusters, and reports their changes. Derive custom providers from it.

    Attributes:
        rules: the permissions that it needs in the management cluster.
    """

    rules: Sequence[RbacRule] = ()

    @abstractmethod
    async def start(self, management: Cluster, on_change: Callable[[Clusters], None]) -> None:
        """Run until cancelled.

        Call `on_change` with all clusters when they are known, and after each change. A cluster with a changed entry is
        reconnected.

        Args:
            management: the cluster of the operator.
            on_change: receives all clusters. It does not block, and raises no exception.
        """

    async def report(self, management: Cluster, name: str, condition: Condition) -> None:  # noqa: B027 - a default
        """Show the state of a cluster to its users. The replica that owns the cluster calls it when it changes."""


class StaticClusters(ClusterProvider):
    """Clusters that the program adds and removes at run time. Every replica must have the same clusters.

    >>> clusters = StaticClusters({"eu": RestConfig(host="https://eu.example.com")})
    >>> clusters.join("us", RestConfig(host="https://us.example.com"))
    >>> clusters.leave("eu")
    """

    def __init__(self, configs: Mapping[str, RestConfig] | None = None) -> None:
        self._clusters = {name: ClusterEntry(name=name, config=config) for name, config in (configs or {}).items()}
        self._listeners: list[Callable[[Clusters], None]] = []

    def join(self, name: str, config: RestConfig) -> None:
        """Add a cluster, or change its configuration."""
        if not name:
            raise UsageError("a cluster of a fleet needs a name")
        self._clusters[name] = ClusterEntry(name=name, config=config)
        self._notify()

    def leave(self, name: str) -> None:
        """Remove a cluster, if it exists."""
        self._clusters.pop(name, None)
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener(dict(self._clusters))

    async def start(
        self,
        management: Cluster,
        on_change: Callable[[Clusters], None],
    ) -> None:
        self._listeners.append(on_change)
        try:
            on_change(dict(self._clusters))
            await asyncio.get_running_loop().create_future()
        finally:
            self._listeners.remove(on_change)


class KubeconfigDirectory(ClusterProvider):
    """One cluster for each kubeconfig file of a directory. Its name is the file's name without the suffix.

    For mounted Secrets and ConfigMaps, and for tests. Files end in ``.kubeconfig``, ``.yaml``, ``.yml`` or ``.conf``.
    Files with other names are ignored, and logged once as a warning. Names that begin with a dot are ignored.

    Args:
        path: the directory. While it is missing, the fleet has no clusters, and a warning is logged once.
        interval: seconds between two reads of the directory.
    """

    def __init__(self, path: Path | str, *, interval: float = 5.0) -> None:
        self._path = Path(path)
        self._interval = interval
        self._last_warning = ""

    async def start(
        self,
        management: Cluster,
        on_change: Callable[[Clusters], None],
    ) -> None:
        before: Clusters | None = None
        while True:
            # Read in the event loop: the files are small, and a thread does not follow virtual time.
            clusters = self._read()
            if clusters != before:
                on_change(clusters)
                before = clusters
            await asyncio.sleep(self._interval)

    def _read(self) -> Clusters:
        """Return the clusters of the directory. A file that cannot be used is an entry with its problem."""
        try:
            files = sorted(file for file in self._path.iterdir() if not file.name.startswith("."))
        except FileNotFoundError:
            self._warn(f"{self._path} does not exist: the fleet has no clusters of this directory")
            return {}
        except OSError as error:
            self._warn(f"cannot read the clusters in {self._path}: {error}")
            return {}
        others = [file.name for file in files if file.suffix not in _SUFFIXES]
        self._warn(_left_out(self._path, others))
        clusters: dict[str, ClusterEntry] = {}
        for file in files:
            if file.suffix not in _SUFFIXES:
                continue
            if file.stem in clusters:
                problem = f"several files in {self._path} have the name {file.stem}: rename one"
                clusters[file.stem] = ClusterEntry(name=file.stem, problem=problem)
                continue
            clusters[file.stem] = self._entry(file)
        return clusters

    def _warn(self, text: str) -> None:
        """Log a warning unless the last read logged the same."""
        if text and text != self._last_warning:
            log.warning("%s", text)
        self._last_warning = text

    def _entry(self, file: Path) -> ClusterEntry:
        try:
            return ClusterEntry(name=file.stem, config=config_from_files([file], required=True))
        except ConfigError as error:
            return ClusterEntry(name=file.stem, problem=str(error))

    def __repr__(self) -> str:
        return f"<KubeconfigDirectory {self._path}>"


def _left_out(path: Path, names: Sequence[str]) -> str:
    """Return the warning about files that are not read; empty if there are none."""
    if not names:
        return ""
    listed = ", ".join(names[:_MAX_SHOWN]) + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")
    return f"files of {path} are left out: {listed}: the name of a kubeconfig ends in {', '.join(_SUFFIXES)}"
