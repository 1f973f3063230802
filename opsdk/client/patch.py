"""Patches that a client sends.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/patch.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from opsdk.apimachinery.codec import encode_tree
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import AnyObject, gvk_of, shared_tree, to_dict, tree_as_read
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

if TYPE_CHECKING:  # start-up time: few operators send such a patch
    from opsdk.structured_merge.schema import Schema

__all__ = ["Patch", "StrategicMergeFrom", "json_patch", "merge_patch", "strategic_merge_patch"]


class PatchType(Enum):
    """The media types of patches."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Patch(Protocol):
    """A patch for an object."""

    @property
    def type(self) -> PatchType:
        """The media type of `data`."""
        ...

    def data(self, obj: AnyObject) -> bytes:
        """Return the body to send. `obj` is the object in its desired state."""
        ...


class RawPatch:
    """A patch from bytes, or from a JSON value.

    >>> RawPatch(PatchType.MERGE, {"spec": {"paused": True}}).data(None)
    b'{"spec":{"paused":true}}'
    """

    def __init__(self, type: PatchType, data: bytes | Mapping[str, JsonValue] | Sequence[JsonValue]) -> None:
        self.type = type
        self._data = data if isinstance(data, bytes) else msgspec.json.encode(data)

    def data(self, obj: AnyObject) -> bytes:
        """Return the bytes of the patch."""
        return self._data

    def __repr__(self) -> str:
        return f"RawPatch({self.type.name}, {self._data[:80]!r})"


def merge_patch(tree: Mapping[str, JsonValue]) -> RawPatch:
    """Return a JSON merge patch: null removes a field, a list replaces a list."""
    return RawPatch(PatchType.MERGE, tree)


def json_patch(operations: Sequence[Mapping[str, JsonValue]]) -> RawPatch:
    """Return a JSON patch: a list of ``{"op": ..., "path": ..., "value": ...}``."""
    return RawPatch(PatchType.JSON, operations)


def strategic_merge_patch(tree: Mapping[str, JsonValue]) -> RawPatch:
    """Return a strategic merge patch (built-in kinds only): lists merge by the kind's merge keys."""
    return RawPatch(PatchType.STRATEGIC, tree)


class MergeFrom:
    """A merge patch with the difference between a base and the object at the time of the patch.

    Only changed fields are sent, so concurrent changes of other fields are kept. The base is copied.

    Args:
        base: the object before the change; None means as it was read, so that no copy of it is needed.
        optimistic_lock: also send the resource version; a concurrent change then raises `ConflictError`.

    Raises:
        UsageError: `optimistic_lock` is set and the base has no resource version; or `base` is None, and the patched
            object was not read from a server.

    Example:
        >>> from opsdk.apimachinery.codec import decode
        >>> from opsdk.apimachinery.kinds import kind_of
        >>> from opsdk.api.core.v1 import ConfigMap
        >>> config = decode(b'{"metadata": {"name": "a"}, "data": {"color": "red"}}', kind_of(ConfigMap))
        >>> config.data["color"] = "blue"
        >>> MergeFrom().data(config)
        b'{"data":{"color":"blue"}}'
    """

    type = PatchType.MERGE

    def __init__(self, base: AnyObject | None = None, *, optimistic_lock: bool = False) -> None:
        # It shares nothing with the base, which the caller changes next.
        self._before = to_dict(base) if base is not None else None
        self._lock = optimistic_lock
        if self._before is not None:
            self._version_of(self._before)

    def data(self, obj: AnyObject) -> bytes:
        """Return the merge patch from the base to `obj`."""
        before, origin = self._before, None
        if before is None:  # items of lists are sent without their kind
            origin = tree_as_read(obj)
            before = {"apiVersion": obj.api_version, "kind": obj.kind, **origin}
        # The server sets the resource version: a difference there is not a change by the caller.
        patch = self._difference(obj, _without_version(before), _without_version(shared_tree(obj, origin)))
        if self._lock:
            patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": self._version_of(before)}
        return encode_tree(patch, obj)

    def _version_of(self, before: JsonObject) -> str:
        """Return the resource version to lock. Raises `UsageError`."""
        version: str = before.get("metadata", {}).get("resourceVersion", "")
        if self._lock and not version:
            raise UsageError(
                "an optimistic lock needs a resource version: pass an object that was read from the server"
            )
        return version

    def _difference(self, obj: AnyObject, old: JsonObject, new: JsonObject) -> JsonObject:
        patch: JsonObject = create_merge_patch(old, new)
        return patch

    def __repr__(self) -> str:
        base = self._before.get("kind") if self._before is not None else "as read"
        return f"{type(self).__name__}({base}{', optimistic lock' if self._lock else ''})"


class StrategicMergeFrom(MergeFrom):
    """Like `MergeFrom`, but a strategic merge patch: lists merge by their merge keys. Built-in kinds only.

    Two writers can change different containers of one pod template without overwriting each other.
    """

    type = PatchType.STRATEGIC

    def __init__(self, base: AnyObject | None = None, *, optimistic_lock: bool = False) -> None:
        super().__init__(base, optimistic_lock=optimistic_lock)
        if base is not None:
            _schema_for(gvk_of(base))

    def _difference(self, obj: AnyObject, old: JsonObject, new: JsonObject) -> JsonObject:
        from opsdk.apimachinery.patch.strategic_merge_patch import create_strategic  # noqa: PLC0415 - as above

        return create_strategic(old, new, _schema_for(gvk_of(obj)))


@lru_cache(maxsize=256)
def _schema_for(gvk: GroupVersionKind) -> Schema:
    """Return the schema of a built-in kind. Raises `UsageError` for other kinds."""
    from opsdk.api.generated_patches import KINDS, SCHEMAS  # noqa: PLC0415 - start-up time: large tables
    from opsdk.structured_merge.schema import SchemaSet  # noqa: PLC0415 - as above

    name = KINDS.get(f"{gvk.group}/{gvk.version}/{gvk.kind}")
    if name is None:
        raise UsageError(f"{gvk} has no strategic merge patch, only built-in kinds have: use MergeFrom")
    return SchemaSet(SCHEMAS).of(name)


def _without_version(tree: JsonObject) -> JsonObject:
    meta = {k: v for k, v in tree.get("metadata", {}).items() if k != "resourceVersion"}
    return {**tree, "metadata": meta}
