"""The owner of an object, and the writers of a change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
from opsdk.engine.masking import DELETION
from opsdk.engine.ownership import entries_of, own_part
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = [
    "Presence",
    "SplitChange",
    "changed_by_others",
    "created_by",
    "merged",
    "presence_of",
    "split_change",
    "without_deletion",
]

_ABSENT: Final = object()
_BOOKKEEPING: Final = frozenset({"managedFields", "resourceVersion", "generation"})
_BUILT_IN: Final = ("kube-", "kubelet")
"""How the field managers of the control plane begin."""


class Presence(StrEnum):
    """Whether an object is there."""

    PRESENT = "exists"
    DELETING = "is being deleted"
    ABSENT = "does not exist"


def presence_of(obj: JsonObject | None) -> Presence:
    """Return whether an object is there; None is an object that is not."""
    if obj is None:
        return Presence.ABSENT
    return Presence.DELETING if "deletionTimestamp" in obj["metadata"] else Presence.PRESENT


# ------------------------------------------------------------------ owners
def created_by(obj: JsonObject, managers: Collection[str]) -> bool:
    """Whether some field managers own an object: its content, or its metadata if there is no content.

    The fields of the built-in controllers do not count, and none that were set through a subresource: an autoscaler
    sets the scale of what others created.
    """
    others = [
        element.removeprefix("f:")
        for entry in entries_of(obj, managers, own=False)
        if not entry.get("subresource") and not str(entry.get("manager", "")).startswith(_BUILT_IN)
        for element in entry.get("fieldsV1") or {}
    ]
    part = own_part(obj, managers)
    if not _has_content(obj):
        return bool(part) and not others
    return _has_content(part) and not _has_content(others)


def _has_content(fields: Iterable[str]) -> bool:
    """Whether an object, or a part of one, has more than metadata and status."""
    return bool(set(fields) - {"apiVersion", "kind", "metadata", "status"})


# ------------------------------------------------------------------ changes
class SplitChange(NamedTuple):
    """The change of an object, split by its writers.

    Attributes:
        own: paths that the operator changed; one path stands for all below it.
        others: what others changed, as a JSON merge patch; lists are whole.
    """

    own: list[str]
    others: JsonObject


def split_change(before: JsonObject, after: JsonObject, managers: Collection[str]) -> SplitChange:
    """Split the change of an object into what its operator changed, and what others did.

    A watch that begins anew shows several writes as one change, so it is split by fields. A field that another manager
    takes over is a change of that manager.
    """
    return _split(_State(before, own_part(before, managers)), _State(after, own_part(after, managers)), "")


class _State(NamedTuple):
    """A value in an object, and the part of it that the operator owns."""

    value: JsonValue
    own: JsonValue

    def member(self, name: str) -> _State:
        """Return the state of a member; both may be absent."""
        return _State(_member(self.value, name), _member(self.own, name))


def _member(value: JsonValue, name: str) -> JsonValue:
    return value.get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT


def _split(before: _State, after: _State, path: str) -> SplitChange:
    change = SplitChange([], {})
    for name in {**before.value, **after.value}:
        old, new = before.member(name), after.member(name)
        if old.value == new.value or (path == "metadata" and name in _BOOKKEEPING):
            continue
        below = f"{path}.{name}" if path else name
        if isinstance(old.value, dict) and isinstance(new.value, dict):
            nested = _split(old, new, below)
            change.own.extend(nested.own)
            if nested.others:
                change.others[name] = nested.others
        elif old.own != new.own and (new.own is not _ABSENT or new.value is _ABSENT):
            change.own.append(below)
        else:
            change.others[name] = None if new.value is _ABSENT else new.value
    return change


def without_deletion(patch: JsonObject) -> JsonObject:
    """Return a merge patch that does not begin a deletion."""
    metadata = {name: value for name, value in patch.get("metadata", {}).items() if name not in DELETION}
    rest = {name: value for name, value in patch.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def merged(obj: JsonObject, patch: JsonObject, live: JsonObject, managers: Collection[str]) -> JsonObject:
    """Return an object with the changes of others: its operator keeps the fields that it owns.

    Args:
        obj: as the operator left it.
        patch: the changes of others.
        live: the object that has them.
        managers: the field managers of the operator.
    """
    patched = apply_merge_patch(obj, patch)
    assert isinstance(patched, dict)
    entries = list(entries_of(live, managers, own=False)) + list(entries_of(obj, managers, own=True))
    metadata = {**patched["metadata"], "managedFields": entries}
    if "generation" in live["metadata"]:
        metadata["generation"] = live["metadata"]["generation"]
    return {**patched, "metadata": metadata}


def changed_by_others(before: JsonObject | None, after: JsonObject | None, managers: Collection[str]) -> frozenset[str]:
    """Return the other field managers that wrote an object between two states, without those of the control plane."""
    former = [] if before is None else list(entries_of(before, managers, own=False))
    new = [] if after is None else [each for each in entries_of(after, managers, own=False) if each not in former]
    return frozenset(name for each in new if not (name := str(each.get("manager", ""))).startswith(_BUILT_IN))
