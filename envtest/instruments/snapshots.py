"""Snapshots of all objects, their restoration, and forks of an environment."""

from __future__ import annotations

from functools import partial

from envtest.controllers.ports import SimulatedControllers
from envtest.instruments.cluster_snapshots import in_stored_version
from envtest.instruments.journal import written_by
from envtest.plane.control_plane import ControlPlane
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.apiserver.storage.snapshots import Snapshot
from opsdk.engine.writes import RESTORE
from opsdk.errors import ConfigError
from opsdk.structured_merge.value import JsonObject

_DERIVED = ("core/services/", "apiextensions.k8s.io/customresourcedefinitions/")
"""Prefixes of objects whose derived state a restore must rebuild; other derived state watches the storage."""


def take_snapshot(storage: LocalStorage) -> Snapshot:
    """Take a snapshot of all objects."""
    return _require_snapshots(storage).snapshot()


def restore_snapshot(plane: ControlPlane, simulated: SimulatedControllers, snapshot: Snapshot, *, reset: bool) -> None:
    """Restore a snapshot."""
    with written_by(RESTORE):
        changes = _require_snapshots(plane.storage).restore(snapshot, reset=reset)
    if any(change.key.startswith(_DERIVED) for change in changes):
        plane.rederive()
    simulated.restored()


async def place(plane: ControlPlane, key: str, current: JsonObject | None, obj: JsonObject | None) -> None:
    """Replace the current object by one as another cluster has it; see `envtest.Environment.place`."""
    storage = plane.storage
    with written_by(RESTORE):
        if current is not None and (obj is None or obj["metadata"].get("uid") != current["metadata"].get("uid")):
            storage.delete_now(key)
            current = None
        if obj is None:
            return
        stored = in_stored_version(key, obj, plane.kubernetes)
        if current is None:
            storage.create_now(key, stored)
        else:
            await storage.guaranteed_update(key, partial(_replaced, stored))
    if key.startswith(_DERIVED):
        plane.rederive()


async def _replaced(obj: JsonObject, _: JsonObject | None) -> JsonObject:
    return obj


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
