"""Changes of ownership by updates and applies, and the fields that an apply removes.

All functions take objects without ``managedFields``.

Upstream: sigs.k8s.io/structured-merge-diff/merge/update.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from opsdk.apiserver.fieldmanager.conflicts import conflict_error, conflicts_of
from opsdk.apiserver.fieldmanager.managed_fields import Managed, ManagedFieldsEntry, ManagerKey
from opsdk.apiserver.fieldmanager.version_converter import VersionConverter
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.typed import (
    Comparison,
    compare,
    ensure_named_fields_are_members,
    merge,
    remove_items,
    to_field_set,
)
from opsdk.structured_merge.value import JsonValue

Object = Mapping[str, JsonValue]


class OwnershipUpdater:
    """The ownership rules of one resource in one version."""

    def __init__(
        self, versions: VersionConverter, *, ignored: FieldSet | None = None, ignored_in: str | None = None
    ) -> None:
        """`ignored` fields, and fields below them, can be neither changed nor owned through this endpoint.

        Managers in other versions than `ignored_in` (None: any) lose these fields if the request changes them.
        """
        self._versions = versions
        self._version = versions.api_version
        self._shape = versions.shape(self._version)
        self._ignored = ignored or EMPTY
        self._ignored_in = ignored_in

    def update(self, live: Object, new: Object, managed: Managed, key: ManagerKey, *, now: str) -> Managed:
        """Return the managers after `key` updated `live` to `new`: the changed fields belong to `key` only."""
        self._check_versions(live, managed)
        rest, change = self._move(live, new, managed, skip=None, force=True)
        written = change.written
        taken = self._taken(written)
        if not taken:
            return rest
        if taken is written and (own := managed.get(key)) is not None:
            # It gets back what it has just lost. Usually it owned all of that: its set stays the same one, which has
            # its wire form already.
            before = own.fields.difference(change.removed)
        else:
            before = rest[key].fields if key in rest else EMPTY
        return {**rest, key: ManagedFieldsEntry(fields=before.union(taken), api_version=self._version, time=now)}

    def fields_of_new(self, zero: Object, new: Object) -> FieldSet:
        """Return the fields that the creator of `new` owns; `zero` is the object without any set field."""
        return self._taken(compare(zero, new, self._shape).without(self._ignored).written)

    def _taken(self, written: FieldSet) -> FieldSet:
        return written.recursive_difference(self._ignored).difference(NEVER_OWNED)

    def apply(
        self, live: Object, config: Object, managed: Managed, key: ManagerKey, *, force: bool, exempt: FieldSet = EMPTY
    ) -> tuple[Object | None, Managed]:
        """Return the object after applying `config` (None: unchanged) and its managers; `exempt` fields never conflict.

        Raises:
            ConflictError: another manager owns a field with another value, and `force` is off.
        """
        self._check_versions(live, managed)
        last = managed.get(key)
        merged: Object = merge(live, config, self._shape)
        applied = to_field_set(config, self._shape).recursive_difference(self._ignored)
        claimed = {
            **managed,
            key: ManagedFieldsEntry(fields=applied, api_version=self._version, time=last.time if last else ""),
        }
        result = self._prune(merged, claimed, last, applied)
        owners, _ = self._move(live, result, claimed, skip=key, force=force, exempt=exempt)
        previous = owners[key].fields.difference(NEVER_OWNED) if key in owners else EMPTY
        owners = {name: owner for name, owner in owners.items() if name != key}
        if previous:
            owners[key] = claimed[key].with_fields(previous)
        return (None if deep_equal(live, result) else result), owners

    def _check_versions(self, live: Object, managed: Managed) -> None:
        """Raise unless the live object converts to the version of each manager."""
        versions = {
            owner.api_version: None for owner in managed.values() if self._versions.can_convert_to(owner.api_version)
        }
        for version in versions:
            self._versions.convert(live, self._version, version, "")

    # -------------------------------------------------------------- removal of changed fields from other managers
    def _move(
        self,
        live: Object,
        new: Object,
        managed: Managed,
        *,
        skip: ManagerKey | None,
        force: bool,
        exempt: FieldSet = EMPTY,
    ) -> tuple[Managed, Comparison]:
        """Remove the changed fields from all managers but `skip`."""
        changes = {self._version: compare(live, new, self._shape).without(self._ignored)}
        written: dict[str, FieldSet] = {}
        conflicts: dict[ManagerKey, FieldSet] = {}
        owners: Managed = {}
        for key, owner in managed.items():
            if key == skip or not self._versions.can_convert_to(owner.api_version):
                if not self._versions.is_missing_version(owner.api_version):
                    owners[key] = owner
                continue
            if owner.api_version not in changes:
                changes[owner.api_version] = self._compare_in(owner.api_version, live, new)
            change = changes[owner.api_version]
            if owner.api_version not in written:
                written[owner.api_version] = change.written
            lost = owner.fields.intersection(written[owner.api_version])
            if not force and lost.difference(exempt):
                conflicts[key] = lost.difference(exempt)
            rest = owner.fields.difference(lost).difference(change.removed)
            owners[key] = owner if rest is owner.fields else owner.with_fields(rest)
        if conflicts:
            raise conflict_error(conflicts_of(conflicts))
        return {key: owner for key, owner in owners.items() if owner.fields}, changes[self._version]

    def _compare_in(self, version: str, live: Object, new: Object) -> Comparison:
        before = self._versions.convert(live, self._version, version, "old object")
        after = self._versions.convert(new, self._version, version, "new object")
        change = compare(before, after, self._versions.shape(version))
        return change.without(self._ignored) if self._ignored_in in (None, version) else change

    # -------------------------------------------------------------- pruning
    def _prune(self, merged: Object, managed: Managed, last: ManagedFieldsEntry | None, applied: FieldSet) -> Object:
        """Return `merged` without the fields that only the last apply of this manager set."""
        if last is None or not last.fields or not self._versions.can_convert_to(last.api_version):
            return merged
        # Usually an apply repeats all fields of the last one, and nothing is pruned. An object with managers in
        # several versions is converted in any case, because the conversion may fail.
        versions = {owner.api_version for owner in managed.values()}
        known_versions = {v for v in versions if self._versions.can_convert_to(v)} | {last.api_version}
        if known_versions == {self._version} and not last.fields.difference(applied):
            return merged
        version = last.api_version
        shape = self._versions.shape(version)
        whole = self._versions.convert(merged, self._version, version, "merged object")
        dropped = ensure_named_fields_are_members(last.fields, shape)
        pruned = remove_items(whole, dropped, shape) or {}
        pruned = self._add_back_owned(whole, pruned, version, managed)
        pruned_fields = ensure_named_fields_are_members(to_field_set(pruned, shape), shape)
        everything = ensure_named_fields_are_members(to_field_set(whole, shape), shape)
        pruned = remove_items(whole, everything.difference(pruned_fields).intersection(dropped), shape) or {}
        return self._versions.convert(pruned, version, self._version, "pruned object")

    def _add_back_owned(self, merged: Object, pruned: Object, pruned_in: str, managed: Managed) -> Object:
        """Restore the pruned fields that a manager owns, first those of the version `pruned_in`."""
        owned: dict[str, FieldSet] = {}
        for owner in managed.values():
            if self._versions.can_convert_to(owner.api_version):
                owned[owner.api_version] = owned.get(owner.api_version, EMPTY).union(owner.fields)
        for version in sorted(owned, key=lambda version: version != pruned_in):
            shape = self._versions.shape(version)
            whole = self._versions.convert(merged, pruned_in, version, "merged object")
            rest = self._versions.convert(pruned, pruned_in, version, "pruned object")
            everything = ensure_named_fields_are_members(to_field_set(whole, shape), shape)
            keep = ensure_named_fields_are_members(to_field_set(rest, shape), shape).union(
                ensure_named_fields_are_members(owned[version], shape)
            )
            kept_value = remove_items(whole, everything.difference(keep), shape) or {}
            pruned = self._versions.convert(kept_value, version, pruned_in, "pruned object")
        return pruned


_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)

NEVER_OWNED = FieldSet.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in _METADATA),
)
"""Fields without managers: identity, and fields that only the server sets."""
