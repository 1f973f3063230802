"""Decides whether an apply writes, what it writes, and why. Pure: values in, a decision out.

Decisions::

    no live object: `create` --------------------------------------> Send
    `decide`:
    the live object is the remembered one -------------------------> Keep
    several field managers own what former ones applied -----------> TakeOver, then `decide_write`
    `decide_write`:
    no difference, or those that remained after the last apply ----> Keep, and remember
    all differences are drift, and drift is left ------------------> Keep, remember, and report the drift
    anything else -------------------------------------------------> Send, without the drift that is left
"""

from __future__ import annotations

from enum import Enum

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.children.apply_record import NO_DIFFERENCES, ApplyOutcome, ApplyRecord, RemainingDifferences
from opsdk.children.comparison import ApplyComparison, compare
from opsdk.children.drift import Drift
from opsdk.children.explanation import ApplyReason, Explanation, explain
from opsdk.children.field_types import FieldType
from opsdk.children.former_owners import FormerOwners
from opsdk.children.inferred_types import inferred_type
from opsdk.children.ownership import STATUS, applied_by, fields_to_own, managers_of
from opsdk.children.resolver import ResolvedType
from opsdk.errors import PatchError, UsageError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.typed import remove_items
from opsdk.structured_merge.value import JsonObject


class Declared(msgspec.Struct, frozen=True):
    """A desired object, prepared for comparison.

    Attributes:
        gvk: the kind.
        key: namespace and name.
        source: digest of the arguments of the call, or b"" if it is unknown.
        tree: the object as JSON tree.
        digest: of the whole desired object; it stays if drifted fields are removed from `tree`.
        resolved: the type; None if it must be inferred.
        to_own: the fields that an apply owns; None if the type must be inferred.
    """

    gvk: GroupVersionKind
    key: ObjectKey
    source: bytes
    tree: JsonObject
    digest: bytes
    resolved: ResolvedType | None
    to_own: FieldSet | None


class Repetition(Enum):
    """How a write follows the last one of the object."""

    NONE = "none"
    """The last one is not known."""
    CHANGED = "changed"
    """The desired object is neither the last nor the one before."""
    UNCHANGED = "unchanged"
    """The same desired object is written again: another writer may undo it each time."""


class Keep(msgspec.Struct, frozen=True):
    """Decision: send nothing.

    Attributes:
        outcome: to remember; None if the live object is the remembered one.
        remaining: the explanation of the drift that stays, to report.
    """

    outcome: ApplyOutcome | None = None
    remaining: Explanation | None = None


class TakeOver(msgspec.Struct, frozen=True):
    """Decision: move the fields of former field managers to the own one. See `FormerOwners`."""

    explanation: Explanation


class Send(msgspec.Struct, frozen=True):
    """Decision: apply.

    Attributes:
        declared: the object to send.
        explanation: the reasons.
        repetition: how the write follows the last one.
        take_over: to do before, if a former field manager applied the object last.
    """

    declared: Declared
    explanation: Explanation
    repetition: Repetition = Repetition.NONE
    take_over: TakeOver | None = None

    def changes(self, *, force: bool) -> bool:
        """Whether the apply is known to change the object, so that it may carry a trace context.

        Without a record of the last write, the differences may be those that remain after each apply. Without `force`,
        the annotation of another field manager would be a conflict.
        """
        return self.explanation.reason is ApplyReason.CREATE or (force and self.repetition is not Repetition.NONE)


def create(declared: Declared) -> Send:
    """Return the write of an object that does not exist."""
    return Send(declared, Explanation(gvk=declared.gvk, key=declared.key, reason=ApplyReason.CREATE))


def decide(
    declared: Declared, live: JsonObject, record: ApplyRecord | None, *, former: FormerOwners, drift: Drift
) -> Keep | TakeOver | Send:
    """Return what an apply does to a live object.

    After a `TakeOver`, call `decide_write` with its result.

    Args:
        declared: the desired object.
        live: the tree of the live object.
        record: of the last apply, if it is remembered.
        former: the own field manager, and those before it.
        drift: the reaction to changes by other managers.

    Raises:
        UsageError: an item of a keyed list has no key.
    """
    if record is not None and record.digest == declared.digest and record.is_at(*_version_of(live)):
        return Keep()
    applied = former.owner_in(live)
    if applied is None:
        return _take_over(declared)
    return decide_write(declared, live, record, field_owner=former.field_owner, applied=applied, drift=drift)


def decide_write(
    declared: Declared,
    live: JsonObject,
    record: ApplyRecord | None,
    *,
    field_owner: str,
    applied: str,
    drift: Drift,
) -> Keep | Send:
    """Return what the differences between the live and the desired object lead to.

    Args:
        declared: as for `decide`.
        live: as for `decide`.
        record: as for `decide`.
        field_owner: the own field manager.
        applied: the field manager whose applies count as the own ones.
        drift: as for `decide`.

    Raises:
        UsageError: an item of a keyed list has no key.
    """
    if record is not None and record.uid != _version_of(live)[0]:
        record = None  # of an earlier object with this name
    comparison, owned, schema = compare_declared(live, declared, applied)
    if _is_up_to_date(comparison, declared, record):
        remaining = record.remaining if record is not None and comparison.differences else NO_DIFFERENCES
        return Keep(ApplyOutcome(remaining, owned))
    previous = record.owned if record is not None else None
    explanation = explain(comparison, declared.gvk, declared.key, field_owner=applied, previous=previous)
    if drift is Drift.LEAVE and explanation.drifted:
        if len(explanation.drifted) == len(explanation.changes):
            outcome = ApplyOutcome(RemainingDifferences.of(comparison), previous or owned)
            return Keep(outcome, remaining=replace(explanation, written=False))
        declared = _without_drift(declared, comparison, explanation, schema)
        explanation = explanation.without_drift()
    take_over = _take_over(declared) if applied != field_owner else None
    return Send(declared, explanation, _repetition(declared, record), take_over)


def _version_of(live: JsonObject) -> tuple[str, str]:
    """Return uid and resource version."""
    metadata = live["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")


def _take_over(declared: Declared) -> TakeOver:
    return TakeOver(Explanation(gvk=declared.gvk, key=declared.key, reason=ApplyReason.TAKEN_OVER))


def compare_declared(live: JsonObject, declared: Declared, applied: str) -> tuple[ApplyComparison, FieldSet, Schema]:
    """Compare the live object with the desired one. Returns the fields that an apply owns and the schema, too.

    Args:
        live: the tree of the live object.
        declared: the desired object.
        applied: the field manager of the last apply.
    """
    resolved, tree, to_own = declared.resolved, declared.tree, declared.to_own
    if resolved is not None:
        field_type, ignored = resolved.field_type, resolved.ignored
    else:
        own = applied_by(managers_of(live), applied)
        owned = own.fields if own is not None else EMPTY
        field_type = inferred_type(owned, tree)
        ignored = EMPTY if "f:status" in owned.members | owned.children.keys() else STATUS
    if to_own is None:
        to_own = own_fields(tree, field_type, ignored)
    result = compare(live, tree, field_type, to_own=to_own, field_owner=applied, ignored=ignored)
    return result, to_own, field_type.schema


def own_fields(tree: JsonObject, field_type: FieldType, ignored: FieldSet) -> FieldSet:
    """Return the fields that an apply owns. Raises `UsageError` if an item of a keyed list has no key."""
    try:
        return fields_to_own(tree, field_type.schema, ignored=ignored).shared()
    except PatchError as error:
        name = f"{tree['kind']} {tree['metadata'].get('namespace', '')}/{tree['metadata']['name']}"
        raise UsageError(f"{name}: {error}") from error


def _is_up_to_date(comparison: ApplyComparison, declared: Declared, record: ApplyRecord | None) -> bool:
    if record is None or record.digest != declared.digest:
        return comparison.owners_known and not comparison.differences
    remaining = RemainingDifferences.of(comparison)
    if comparison.owners_known:
        return not remaining.all or remaining == record.remaining
    return not remaining.values or remaining.values == record.remaining.values


def _without_drift(
    declared: Declared, comparison: ApplyComparison, explanation: Explanation, schema: Schema
) -> Declared:
    """Return the desired object without the fields that drifted."""
    pairs = zip(comparison.differences, explanation.changes, strict=True)
    paths = [difference.path for difference, change in pairs if change.reason is ApplyReason.DRIFT]
    return replace(declared, tree=remove_items(declared.tree, FieldSet.of(*paths), schema))


def _repetition(declared: Declared, record: ApplyRecord | None) -> Repetition:
    if record is None:
        return Repetition.NONE
    is_repeated = declared.digest in (record.digest, record.previous_digest)
    return Repetition.UNCHANGED if is_repeated else Repetition.CHANGED
