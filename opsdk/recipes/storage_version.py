"""The storage version of a CustomResourceDefinition, and the outcomes of object writes. Pure.

Upstream: k8s.io/kubernetes/pkg/controller/storageversionmigrator/storageversionmigrator.go (v1.36)
"""

from __future__ import annotations

from enum import Enum

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    StorageMigrationError,
    UnauthorizedError,
)
from opsdk.structured_merge.value import JsonObject


class ObjectOutcome(Enum):
    """The outcome of the write of one object."""

    REWRITTEN = "rewritten"
    """The server stored the object again, in the storage version."""
    UNCHANGED = "unchanged"
    """The object was stored in the storage version already; nothing was written."""
    SUPERSEDED = "superseded"
    """Another writer has stored the object since it was listed, so it is in the storage version."""
    GONE = "gone"
    """The object was deleted."""
    FAILED = "failed"
    """The server rejects the object."""


def outcome_of(error: ApiError) -> ObjectOutcome | None:
    """Return the outcome of a permanently failed write, or None if the error concerns every object.

    >>> outcome_of(NotFoundError("the object does not exist"))
    <ObjectOutcome.GONE: 'gone'>
    """
    if isinstance(error, NotFoundError):
        return ObjectOutcome.GONE
    return None if isinstance(error, ForbiddenError | UnauthorizedError) else ObjectOutcome.FAILED


class StorageVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The storage version of a definition, at one generation.

    Attributes:
        definition: the name of the definition.
        uid: the definition's uid.
        generation: the definition's generation.
        kind: the kind in a served version, in the storage version if that is served.
        version: the storage version.
        stored_versions: the versions in which objects may be stored.
    """

    definition: str
    uid: str
    generation: int
    kind: GroupVersionKind
    version: str
    stored_versions: tuple[str, ...]

    @property
    def needs_migration(self) -> bool:
        """Whether objects may be stored in another version."""
        return self.stored_versions != (self.version,)

    def is_still(self, current: StorageVersion) -> bool:
        """Whether no other version can have been the storage version since `self` was read.

        The version alone does not prove it: it may have changed twice. Each change increments the generation.
        """
        return (self.uid, self.generation) == (current.uid, current.generation)


def storage_version_of(definition: JsonObject) -> StorageVersion:
    """Return the storage version of a CustomResourceDefinition.

    Raises:
        StorageMigrationError: the definition is not established, is being deleted, or does not have one storage
            version and at least one served version.
    """
    metadata, spec, status = (definition.get(key) or {} for key in ("metadata", "spec", "status"))
    name = metadata.get("name", "")
    if metadata.get("deletionTimestamp"):
        raise StorageMigrationError(f"{name} is being deleted: its objects need no migration")
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    if conditions.get("Established", {}).get("status") != "True":
        names = conditions.get("NamesAccepted", {}).get("message") or "wait for the condition Established"
        raise StorageMigrationError(f"{name} is not established, so its objects cannot be listed: {names}")
    versions = spec.get("versions") or []
    storage = [v["name"] for v in versions if v.get("storage")]
    if len(storage) != 1:
        raise StorageMigrationError(f"{name} has the storage versions {storage}: set `storage` in exactly one version")
    served = [v["name"] for v in versions if v.get("served")]
    if not served:
        raise StorageMigrationError(f"{name} serves no version: set `served` in one, to list its objects")
    version = storage[0] if storage[0] in served else served[0]
    return StorageVersion(
        definition=name,
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        kind=GroupVersionKind(spec["group"], version, spec["names"]["kind"]),
        version=storage[0],
        stored_versions=tuple(status.get("storedVersions") or ()),
    )
