"""Explains writes: one value for each write, which prints as one line. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.base.shortened import shortened
from opsdk.children.comparison import ApplyComparison, ApplyDifference, DifferenceKind
from opsdk.children.ownership import OwnerEntry, owner_of, owns
from opsdk.structured_merge.fieldpath import FieldSet, Path, format_path
from opsdk.structured_merge.typed import ABSENT
from opsdk.structured_merge.value import JsonValue

REDACTED: Final = "<redacted>"
"""Replaces a value of a Secret."""
_LAST_APPLIED: Final = "f:kubectl.kubernetes.io/last-applied-configuration"
_DATA_PATH: Final = ("f:data",)
_STRING_DATA_PATH: Final = ("f:stringData",)
_MAX_CHANGES: Final = 5
"""Maximum number of changes in the line; `Explanation.changes` has all."""
_MAX_VALUE_LENGTH: Final = 80
"""Longer values are truncated."""


class ApplyReason(Enum):
    """The reason for the write of an object or one of its fields."""

    CREATE = "create"
    """The object does not exist."""
    TAKEN_OVER = "taken over"
    """Another manager set the field before the field manager ever applied it."""
    DRIFT = "drift"
    """Another manager changed a field that the field manager had applied."""
    CHANGED = "changed"
    """The desired value changed."""
    ADDED = "added"
    """The field is missing in the live object, or is desired for the first time."""
    REMOVED = "removed"
    """The field was applied earlier, and is no longer desired."""
    REFRESH = "refresh"
    """The cache strips managedFields, so the first apply of a process is sent without knowledge of the owners."""
    PRUNED = "pruned"
    """The object was applied earlier, and is no longer desired."""
    TAKEN_BACK = "taken back"
    """Fields of an object of another owner were applied earlier, and are no longer desired."""


_REASON_PRIORITY: Final = list(ApplyReason)


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a write.

    Attributes:
        reason: the reason of the write.
        path: such as ``spec.template.spec.containers[name="web"].image``.
        live: the value before as JSON text, `REDACTED`, or "" if it is missing.
        desired: the value to write in the same form; "" if it is removed.
        manager: the other field manager, or "".
        time: RFC 3339 text of that manager's last change, or "".
    """

    reason: ApplyReason
    path: str
    live: str = ""
    desired: str = ""
    manager: str = ""
    time: str = ""

    def __str__(self) -> str:
        values = f"{self.path} {self.live or '(missing)'} -> {self.desired or '(empty)'}"
        time = f" at {self.time}" if self.time else ""
        match self.reason:
            case ApplyReason.DRIFT:
                return f"{values} ({self.manager} changed it{time})" if self.manager else f"{values} (drift)"
            case ApplyReason.TAKEN_OVER:
                text = values if self.live != self.desired else self.path
                return f"{text} (taken over from {self.manager})" if self.manager else f"{text} (taken over)"
            case ApplyReason.REMOVED:
                return f"{self.path} removed"
            case ApplyReason.ADDED:
                return f"{self.path} added: {self.desired}" if self.desired else f"{self.path} added"
        return values


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of a write, or of a drift that is not reverted.

    Attributes:
        gvk: the kind.
        key: the namespace and name.
        reason: the most important reason of `changes`.
        changes: the fields; empty if the object is created or deleted.
        written: False for a drift that `Drift.LEAVE` leaves.
    """

    gvk: GroupVersionKind
    key: ObjectKey
    reason: ApplyReason
    changes: tuple[FieldChange, ...] = ()
    written: bool = True

    @property
    def drifted(self) -> tuple[FieldChange, ...]:
        """The changes of fields that another manager changed."""
        return tuple(change for change in self.changes if change.reason is ApplyReason.DRIFT)

    def without_drift(self) -> Explanation:
        """Return the explanation of the other changes, of which there is at least one."""
        changes = tuple(change for change in self.changes if change.reason is not ApplyReason.DRIFT)
        return replace(self, changes=changes, reason=_main_reason(changes))

    def __str__(self) -> str:
        subject = f"{self.gvk.kind} {self.key}"
        if self.reason is ApplyReason.CREATE:
            return f"{subject}: created"
        if self.reason is ApplyReason.PRUNED:
            return f"{subject}: deleted, it is no longer desired"
        if self.reason is ApplyReason.TAKEN_BACK:
            return f"{subject}: its applied fields are no longer desired"
        if self.reason is ApplyReason.TAKEN_OVER and not self.changes:
            return f"{subject}: the fields of former field managers are taken over"
        if not self.changes:
            return f"{subject}: applied, the owners of its fields are unknown"
        rest = len(self.changes) - _MAX_CHANGES
        more = f"; {rest} more" if rest > 0 else ""
        ending = "" if self.written else " (not reverted)"
        return f"{subject}: {'; '.join(map(str, self.changes[:_MAX_CHANGES]))}{more}{ending}"


def explain(
    comparison: ApplyComparison,
    gvk: GroupVersionKind,
    key: ObjectKey,
    *,
    field_owner: str,
    previous: FieldSet | None = None,
) -> Explanation:
    """Return the reasons of the differences of `comparison`.

    Args:
        comparison: with at least one difference, unless the owners are unknown.
        gvk: the kind.
        key: the namespace and name.
        field_owner: the field manager.
        previous: the fields of this process's last apply, if known. A field outside it is new, not drifted.
    """
    changes = tuple(_changes(comparison, gvk, field_owner, previous))
    return Explanation(gvk=gvk, key=key, reason=_main_reason(changes), changes=changes)


def _main_reason(changes: tuple[FieldChange, ...]) -> ApplyReason:
    reasons = {change.reason for change in changes}
    return min(reasons, key=_REASON_PRIORITY.index, default=ApplyReason.REFRESH)


def _changes(
    comparison: ApplyComparison, gvk: GroupVersionKind, field_owner: str, previous: FieldSet | None
) -> Iterator[FieldChange]:
    """Yield the changes of an apply, each with its reason and the manager that caused it."""
    for difference in comparison.differences:
        path = difference.path
        other = owner_of(comparison.managers, path, besides=field_owner)
        reason = _reason(difference, comparison, other, previous)
        by_other = reason in (ApplyReason.DRIFT, ApplyReason.TAKEN_OVER) and other is not None
        yield FieldChange(
            reason=reason,
            path=format_path(path).removeprefix(".") or "apiVersion",
            live=shown_value(gvk, path, difference.live),
            desired=shown_value(gvk, path, difference.desired),
            manager=other.name if other is not None and by_other else "",
            time=other.time if other is not None and by_other else "",
        )


def _reason(
    difference: ApplyDifference, comparison: ApplyComparison, other: OwnerEntry | None, previous: FieldSet | None
) -> ApplyReason:
    """Return why a field is written."""
    path, own = difference.path, comparison.own
    match difference.kind:
        case DifferenceKind.OWNED_BEFORE:
            return ApplyReason.REMOVED
        case DifferenceKind.VERSION:
            return ApplyReason.CHANGED
        case DifferenceKind.SHARED:
            return ApplyReason.TAKEN_OVER
        case DifferenceKind.NOT_OWNED:
            return ApplyReason.TAKEN_OVER if other is not None else ApplyReason.ADDED
    if not comparison.owners_known:
        return ApplyReason.DRIFT
    if own is not None and owns(own.fields, path):
        return ApplyReason.CHANGED
    if own is not None and path[:1] == _DATA_PATH and owns(own.fields, (*_STRING_DATA_PATH, *path[1:])):
        # Applied as stringData of a Secret. A manager that changes the value owns it below data.
        return ApplyReason.CHANGED if other is None else ApplyReason.DRIFT
    # Another writer that changes each field of the last apply also removes the entry of the own manager.
    is_new = own is None if previous is None else not owns(previous, path)
    if difference.live is ABSENT:
        return ApplyReason.ADDED if is_new or previous is None else ApplyReason.DRIFT
    return ApplyReason.TAKEN_OVER if is_new else ApplyReason.DRIFT


def shown_value(gvk: GroupVersionKind, path: Path, value: JsonValue) -> str:
    """Return a value as JSON text; `REDACTED` for content of a Secret, "" for `ABSENT`."""
    if value is ABSENT:
        return ""
    secret = gvk.group == "" and gvk.kind == "Secret" and path[:1] in (_DATA_PATH, _STRING_DATA_PATH)
    if secret or _LAST_APPLIED in path:
        return REDACTED
    text = msgspec.json.encode(value).decode()
    return shortened(text, _MAX_VALUE_LENGTH)
