"""Patches: what to change, in the forms the server understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from opsdk.apimachinery.codec import encode_tree
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import AnyObject, gvk_of, to_tree
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.apimachinery.patch.strategic_merge_patch import create_strategic
from opsdk.errors import UsageError
from opsdk.structured_merge.schema import Schema, SchemaSet
from opsdk.structured_merge.value import JsonObject, JsonValue


class PatchType(Enum):
    """The content types of patches."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Patch(Protocol):
    """Something that can say what to change in an object."""

    @property
    def type(self) -> PatchType:
        """How the server must read `data`."""
        ...

    def data(self, obj: AnyObject) -> bytes:
        """The body to send for `obj`, the object as it should be."""
        ...


class RawPatch:
    """A patch given as bytes, or as a tree to be sent as JSON.

    >>> RawPatch(PatchType.MERGE, {"spec": {"paused": True}}).data(None)
    b'{"spec":{"paused":true}}'
    """

    def __init__(self, type: PatchType, data: bytes | Mapping[str, JsonValue] | Sequence[JsonValue]) -> None:  # noqa: A002
        self.type = type
        self._data = data if isinstance(data, bytes) else msgspec.json.encode(data)

    def data(self, obj: AnyObject) -> bytes:  # noqa: ARG002 - the same whatever the object
        """The bytes given."""
        return self._data

    def __repr__(self) -> str:
        return f"RawPatch({self.type.name}, {self._data[:80]!r})"


def merge_patch(tree: Mapping[str, JsonValue]) -> RawPatch:
    """A JSON merge patch: null removes a field, a list replaces a list."""
    return RawPatch(PatchType.MERGE, tree)


def json_patch(operations: Sequence[Mapping[str, JsonValue]]) -> RawPatch:
    """A JSON patch: a list of ``{"op": ..., "path": ..., "value": ...}``."""
    return RawPatch(PatchType.JSON, operations)


def strategic_merge_patch(tree: Mapping[str, JsonValue]) -> RawPatch:
    """A strategic merge patch (built-in kinds only): lists are merged by the keys that the kind declares."""
    return RawPatch(PatchType.STRATEGIC, tree)


class MergeFrom:
    """The difference between an object as it was and as it is when the patch is sent, as a merge patch.

    Only what changed is sent, so changes that others make elsewhere in the object are kept. The base is copied.

    Args:
        base: the object before you change it.
        optimistic_lock: also send its resource version, so that any change by others is a `ConflictError`.
    """

    type = PatchType.MERGE

    def __init__(self, base: AnyObject, *, optimistic_lock: bool = False) -> None:
        self._before = to_tree(base)  # shares nothing with the base, which the caller goes on to change
        self._lock = optimistic_lock
        if optimistic_lock and not base.metadata.resource_version:
            raise UsageError("an optimistic lock needs the resource version of an object that was read; this has none")

    def data(self, obj: AnyObject) -> bytes:
        """The merge patch from the base to `obj`."""
        after = to_tree(obj)
        # The revision is the server's: a difference there is no wish of the caller's.
        version = self._before.get("metadata", {}).get("resourceVersion")
        patch = self._difference(_without_version(self._before), _without_version(after))
        if self._lock:
            patch.setdefault("metadata", {})["resourceVersion"] = version
        return encode_tree(patch, obj)

    def _difference(self, old: JsonObject, new: JsonObject) -> JsonObject:
        patch: JsonObject = create_merge_patch(old, new)
        return patch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._before.get('kind')}{', optimistic lock' if self._lock else ''})"


class StrategicMergeFrom(MergeFrom):
    """The same as a strategic merge patch: lists that have keys are merged item by item. Built-in kinds only.

    Two writers may so change different containers of one pod template without overwriting each other.
    """

    type = PatchType.STRATEGIC

    def __init__(self, base: AnyObject, *, optimistic_lock: bool = False) -> None:
        super().__init__(base, optimistic_lock=optimistic_lock)
        self._shape = _shape_of(gvk_of(base))

    def _difference(self, old: JsonObject, new: JsonObject) -> JsonObject:
        return create_strategic(old, new, self._shape)


def _shape_of(gvk: GroupVersionKind) -> Schema:
    """How the kind's lists merge; `UsageError` for kinds that do not say."""
    from opsdk.api.generated_patches import KINDS, SCHEMAS  # noqa: PLC0415 - large, and needed here only

    name = KINDS.get(f"{gvk.group}/{gvk.version}/{gvk.kind}")
    if name is None:
        raise UsageError(f"{gvk} has no strategic merge patch, only built-in kinds have: use MergeFrom")
    return SchemaSet(SCHEMAS).of(name)


def _without_version(tree: JsonObject) -> JsonObject:
    meta = {k: v for k, v in tree.get("metadata", {}).items() if k != "resourceVersion"}
    return {**tree, "metadata": meta}
