"""The conditions that a reconcile has written to a status, in whatever form. Pure.

Upstream: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.client.operations import ObjectWrite, PatchObject
from opsdk.client.patch import MergeFrom, RawPatch

_WHOLE = ("", "/status", "/status/conditions")


class StatusWrite(NamedTuple):
    """A successful write of a status.

    Attributes:
        group: of the object's kind.
        kind: of the object.
        key: namespace and name.
        request: the body, in any of the forms that a server takes; empty for a difference to a whole status, which is
            sent without the conditions that are to stay.
        response: the body.
        before: returns the object before it as JSON; None if it is not known.
    """

    group: str
    kind: str
    key: ObjectKey
    request: bytes
    response: bytes
    before: Callable[[], bytes] | None


class SentCondition(NamedTuple):
    """A condition that a write contained.

    Attributes:
        condition: status, reason and message after the write.
        changed: the write changed it; None if the state before is not known.
    """

    condition: ShownCondition
    changed: bool | None


class OwnStatusPatch(RawPatch):
    """A patch of a status by opsdk, or by a block that has recorded its conditions. It is not collected."""


def status_write(
    operation: ObjectWrite,
    gvk: GroupVersionKind,
    key: ObjectKey,
    bodies: tuple[bytes, bytes],
    before: Callable[[], bytes] | None,
) -> StatusWrite:
    """Return the record of a write with the bodies of request and response."""
    request, response = bodies
    is_difference = isinstance(operation, PatchObject) and isinstance(operation.patch, MergeFrom)
    return StatusWrite(gvk.group, gvk.kind, key, b"" if is_difference else request, response, before)


def is_own_status(operation: ObjectWrite) -> bool:
    """Whether an operation has an `OwnStatusPatch`."""
    return isinstance(operation, PatchObject) and type(operation.patch) is OwnStatusPatch


ShownCondition = tuple[str, str, str]
"""Status, reason and message of a condition."""


def sent_condition(writes: Iterable[StatusWrite], type_: str) -> SentCondition | None:
    """Return the condition of a type that the writes of one object contained, as the last of them left it."""
    latest = None
    for write in writes:
        try:
            if write.request and not _mentions(msgspec.json.decode(write.request), type_):
                continue
            after = _shown(write.response, type_)
            if after is None:
                continue
            before = None if write.before is None else _shown(write.before(), type_)
        except msgspec.DecodeError:
            continue  # not JSON: an apply may be YAML, and the server may change what it stores
        changed = None if write.before is None else before != after
        if latest is not None and latest.changed:
            changed = True
        latest = SentCondition(after, changed)
    return latest


def _mentions(body: Any, type_: str) -> bool:
    """Whether the body of a write contains a condition."""
    if isinstance(body, list):  # a JSON patch
        paths = [operation.get("path", "") for operation in body if isinstance(operation, dict)]
        return any(path in _WHOLE or path.startswith("/status/conditions/") for path in paths)
    return _condition(body, type_) is not None


def _shown(data: bytes, type_: str) -> ShownCondition | None:
    item = _condition(msgspec.json.decode(data), type_)
    return None if item is None else (item.get("status", ""), item.get("reason", ""), item.get("message", ""))


def _condition(tree: Any, type_: str) -> dict[str, Any] | None:
    status = tree.get("status") if isinstance(tree, dict) else None
    items = status.get("conditions") if isinstance(status, dict) else None
    matching = [item for item in items or () if isinstance(item, dict) and item.get("type") == type_]
    return matching[-1] if matching else None
