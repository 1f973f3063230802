"""Snapshots of all objects, their restoration, and forks of an environment."""

from __future__ import annotations

from envtest.controllers.ports import Simulation
from envtest.instruments.journal import written_by
from envtest.plane.control_plane import ControlPlane
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.apiserver.storage.snapshots import Snapshot
from opsdk.engine.writes import RESTORE
from opsdk.errors import ConfigError

_DERIVED = ("core/services/", "apiextensions.k8s.io/customresourcedefinitions/")
"""Prefixes of objects whose derived state a restore must rebuild; other derived state watches the storage."""


def take_snapshot(storage: LocalStorage) -> Snapshot:
    """Take a snapshot of all objects."""
    return _require_snapshots(storage).snapshot()


def restore_snapshot(plane: ControlPlane, simulated: Simulation, snapshot: Snapshot, *, reset: bool) -> None:
    """Restore a snapshot."""
    with written_by(RESTORE):
        changes = _require_snapshots(plane.storage).restore(snapshot, reset=reset)
    if any(change.key.startswith(_DERIVED) for change in changes):
        plane.rederive()
    simulated.restored()


def copy(storage: LocalStorage) -> LocalStorage:
    """Return another storage with the same objects."""
    return MemoryStorage.of(take_snapshot(storage))


def share(plane: ControlPlane, other: ControlPlane) -> None:
    """Give a copy the state outside the storage: the signing key and the webhooks of this process."""
    other.access.key.share(plane.access.key)
    other.webhook_client.apps.update(plane.webhook_client.apps)


def _require_snapshots(storage: LocalStorage) -> MemoryStorage:
    if not isinstance(storage, MemoryStorage):
        raise ConfigError(f"{storage!r} takes no snapshots: use an environment without a storage of your own")
    return storage
