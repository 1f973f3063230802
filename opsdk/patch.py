"""Patches that a client sends.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/patch.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from opsdk.apimachinery.codec import encode_tree
from opsdk.apimachinery.object import AnyObject, gvk_of, to_tree
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.apimachinery.patch.strategic_merge_patch import create_strategic
from opsdk.errors import UsageError
from opsdk.structured_merge.schema import SchemaSet
from opsdk.structured_merge.value import JsonObject, JsonValue


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

    def __init__(self, type: PatchType, data: bytes | Mapping[str, JsonValue] | Sequence[JsonValue]) -> None:  # noqa: A002
        self.type = type
        self._data = data if isinstance(data, bytes) else msgspec.json.encode(data)

    def data(self, obj: AnyObject) -> bytes:  # noqa: ARG002 - the same whatever the object
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
        base: the object before the change.
        optimistic_lock: also send the resource version; a concurrent change then raises `ConflictError`.

    Raises:
        UsageError: `optimistic_lock` is set and `base` has no resource version.
    """

    type = PatchType.MERGE

    def __init__(self, base: AnyObject, *, optimistic_lock: bool = False) -> None:
        self._before = to_tree(base)  # shares nothing with the base, which the caller changes next
        self._lock = optimistic_lock
        if optimistic_lock and not base.metadata.resource_version:
            raise UsageError(
                "an optimistic lock needs a resource version: pass an object that was read from the server"
            )

    def data(self, obj: AnyObject) -> bytes:
        """Return the merge patch from the base to `obj`."""
        after = to_tree(obj)
        # The server sets the resource version: a difference there is not a change by the caller.
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
    """As `MergeFrom`, as a strategic merge patch: lists merge by their merge keys. Built-in kinds only.

    Two writers can change different containers of one pod template without overwriting each other.
    """

    type = PatchType.STRATEGIC

    def __init__(self, base: AnyObject, *, optimistic_lock: bool = False) -> None:
        super().__init__(base, optimistic_lock=optimistic_lock)
        from opsdk.api.generated_patches import KINDS, SCHEMAS  # noqa: PLC0415 - start-up time: large tables

        gvk = gvk_of(base)
        name = KINDS.get(f"{gvk.group}/{gvk.version}/{gvk.kind}")
        if name is None:
            raise UsageError(f"{gvk} has no strategic merge patch, only built-in kinds have: use MergeFrom")
        self._schema = SchemaSet(SCHEMAS).of(name)

    def _difference(self, old: JsonObject, new: JsonObject) -> JsonObject:
        return create_strategic(old, new, self._schema)


def _without_version(tree: JsonObject) -> JsonObject:
    meta = {k: v for k, v in tree.get("metadata", {}).items() if k != "resourceVersion"}
    return {**tree, "metadata": meta}
