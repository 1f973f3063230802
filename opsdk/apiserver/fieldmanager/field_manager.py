"""`FieldManager`: updates ``metadata.managedFields`` and applies configurations.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from msgspec.structs import replace

from opsdk.apiserver.fieldmanager import last_applied
from opsdk.apiserver.fieldmanager.managed_fields import (
    APPLY,
    UPDATE,
    Managed,
    ManagedFieldsEntry,
    ManagerKey,
    decode_entries,
    entries_of,
    keep_times,
    with_entries,
    without_entries,
)
from opsdk.apiserver.fieldmanager.structure import UnboundedStructureError, structure_of
from opsdk.apiserver.fieldmanager.updater import OwnershipUpdater
from opsdk.apiserver.fieldmanager.version_converter import Convert, VersionConverter
from opsdk.errors import ApiError, BadRequestError, DecodeError, PatchError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.identity_cache import drop_oldest
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.typed import check_typed
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_UPDATE_MANAGERS: Final = 10
"""Most update entries; older ones are merged, so that objects do not grow with the number of writers."""

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Manager of the fields of an unmanaged object before its first apply."""

ANCIENT_CHANGES: Final = "ancient-changes"
"""Manager of the merged update entries."""

_STRUCTURES_LIMIT: Final = 128
"""Most cached structures of new objects; a few KB each."""

_SMD: Final = " to smd typed"

Object = Mapping[str, JsonValue]


class FieldManager:
    """Manages field ownership at one endpoint of a resource.

    Args:
        shape: the schema of the objects.
        api_version: the apiVersion of requests at this endpoint, e.g. "apps/v1".
        subresource: "" for the resource itself, else e.g. "status".
        reset_fields: fields that this endpoint cannot change, e.g. ``f:status`` for the main resource.
        reset_in: the version whose fields are reset; None for all versions.
        convert: converts an object to another apiVersion; by default only ``apiVersion`` differs.
        shapes: the schemas of the other served versions, by apiVersion. If given, entries of versions without
            schema are dropped; if None, they are kept unchanged.
        unconvertible: the server cannot convert the objects that it creates: applies with a change fail, as for
            scales of custom resources.
        live_may_be_invalid: stored objects may not fit `shape`, e.g. after a change of the schema.
    """

    def __init__(
        self,
        *,
        shape: Schema,
        api_version: str,
        subresource: str = "",
        reset_fields: FieldSet | None = None,
        reset_in: str | None = None,
        convert: Convert | None = None,
        shapes: Mapping[str, Schema] | None = None,
        unconvertible: bool = False,
        live_may_be_invalid: bool = False,
    ) -> None:
        self._shape = shape
        self._api_version = api_version
        self._subresource = subresource
        self._unconvertible = unconvertible
        self._loose = live_may_be_invalid
        self._by_structure: dict[Hashable, FieldSet] = {}
        versions = VersionConverter(shape, api_version, convert=convert, shapes=shapes)
        self._updater = OwnershipUpdater(versions, ignored=reset_fields, ignored_in=reset_in)

    def update(self, live: Object | None, new: Object, *, manager: str, now: str) -> JsonObject:
        """Return `new` with its managedFields after `manager` wrote it over `live` (None: created it).

        Entries come from `new`, so that clients can edit them, or from `live` if `new` has no valid ones.
        An empty list, or one empty entry, resets them: no field has a manager until the next apply.
        """
        managed = self._owners_for_update(live, new)
        bare = without_entries(new)
        if live is None and not managed:
            return self._create(bare, manager, now)
        if not managed and live is not None and get_path(live, ["metadata", "uid"], ""):
            return bare
        before = without_entries(live) if live is not None else self._zero(new)
        try:
            if self._loose and live is not None:
                check_typed(before, self._shape, allow_duplicates=True)
            owners = self._record(before, bare, managed, manager, now)
        except (ApiError, PatchError):
            return bare  # an object that does not fit its schema stays writable: rather no managers than wrong ones
        result = with_entries(bare, owners)
        return keep_times(live, result) if live is not None else result

    def _create(self, new: JsonObject, manager: str, now: str) -> JsonObject:
        """Return `new` with `manager` as the owner of all its fields."""
        try:
            fields = self._fields_of_new(new)
        except (ApiError, PatchError):
            return new  # as in `update`
        if not fields:
            return new
        key = ManagerKey.of(manager, UPDATE, self._api_version, self._subresource)
        return with_entries(new, {key: ManagedFieldsEntry(fields=fields, api_version=self._api_version, time=now)})

    def _fields_of_new(self, new: Object) -> FieldSet:
        try:
            structure = structure_of(new)
        except UnboundedStructureError:
            return self._updater.fields_of_new(self._zero(new), new)
        fields = self._by_structure.get(structure)
        if fields is None:
            fields = self._updater.fields_of_new(self._zero(new), new)
            if len(self._by_structure) >= _STRUCTURES_LIMIT:
                drop_oldest(self._by_structure)
            self._by_structure[structure] = fields
        return fields

    def apply(self, live: Object | None, config: Object, *, manager: str, force: bool, now: str) -> JsonObject:
        """Return `live` (None: to be created) after `manager` applied `config`.

        Raises:
            BadRequestError: `config` has managedFields or is of another version.
            ApiError: 500, `config` does not fit the schema.
            ConflictError: other managers own fields with other values, and `force` is off.
        """
        self._check_config(config)
        managed = self._owners(live) if live is not None else {}
        before = without_entries(live) if live is not None else self._zero(config)
        if not managed and live is not None:
            nameless = {**live, "metadata": {}}
            self._check_convertible(nameless, "failed to create manager for existing fields: failed to convert live")
            self._check_live(before, "failed to create manager for existing fields: failed to convert new object", _SMD)
            managed = self._record(self._zero(live), before, {}, BEFORE_FIRST_APPLY, now)
        elif live is not None:
            self._check_live(before, "failed to create typed live object")
        key = ManagerKey.of(manager, APPLY, self._api_version, self._subresource)
        result, owners = self._updater.apply(
            before,
            config,
            managed,
            key,
            force=force,
            exempt=last_applied.own_fields(before, self._shape, self._api_version)
            if manager == last_applied.MANAGER
            else EMPTY,
        )
        if result is None:
            applied = with_entries(before, owners)
        else:
            self._check_convertible(result, "failed to convert new")
            if key in owners:
                owners[key] = replace(owners[key], time=now)
            applied = with_entries(result, owners)
        if manager == last_applied.MANAGER:
            applied = last_applied.renew(applied, config)
        return keep_times(live, applied) if live is not None else applied

    # -------------------------------------------------------------- helpers
    def _check_live(self, live: Object, prefix: str, suffix: str = "") -> None:
        """Raise a 500 error if the live object does not fit its schema, for example after a schema change."""
        try:
            check_typed(live, self._shape, allow_duplicates=True)
        except PatchError as error:
            text = f"{prefix} ({describe_object(live)}){suffix}: {error}"
            raise ApiError(text, code=500, reason="") from error

    def _check_convertible(self, obj: Object, prefix: str) -> None:
        if self._unconvertible:
            reason = f"request to convert CR to an invalid group/version: {self._api_version}"
            text = f"{prefix} object ({describe_object(obj)}) to proper version: {reason}"
            raise ApiError(text, code=500, reason="")

    def _record(self, before: Object, after: Object, managed: Managed, manager: str, now: str) -> Managed:
        key = ManagerKey.of(manager, UPDATE, self._api_version, self._subresource)
        return fold_updaters(self._updater.update(before, after, managed, key, now=now))

    def _zero(self, like: Object) -> JsonObject:
        """Return the object without any set field."""
        zero = self._shape.zero(like)
        names = {name: like[name] for name in ("apiVersion", "kind") if name in like}
        return {**(zero if isinstance(zero, dict) else {}), **names}

    def _owners_for_update(self, live: Object | None, new: Object) -> Managed:
        """Return the owners before an update: those that the client sent, else the stored ones."""
        entries, before = entries_of(new), entries_of(live) if live is not None else None
        if entries == before:
            entries = before  # most clients return them unchanged; these are decoded already
        if not self._subresource:
            if entries is not None and (not entries or entries == [{}]):
                return {}
            try:
                managed = decode_entries(entries)
            except DecodeError:
                managed = {}
            if managed:
                return managed
        try:
            return decode_entries(before)
        except DecodeError:
            return {}

    def _owners(self, live: Object) -> Managed:
        try:
            return decode_entries(entries_of(live))
        except DecodeError as error:
            raise ApiError(f"failed to decode managed fields: {error}", code=500, reason="") from error

    def _check_config(self, config: Object) -> None:
        if get_path(config, ["metadata", "managedFields"], None) is not None:
            raise BadRequestError("metadata.managedFields must be nil")
        version = config.get("apiVersion") or ""
        if version != self._api_version:
            raise BadRequestError(
                f"Incorrect version specified in apply patch. "
                f"Specified patch version: {version}, expected: {self._api_version}"
            )
        try:
            check_typed(config, self._shape)
        except PatchError as error:
            text = f"failed to create typed patch object ({describe_object(config)}): {error}"
            raise ApiError(text, code=500, reason="") from error


def describe_object(obj: Object) -> str:
    """Return an object's name in messages: ``namespace/name; group/version, Kind=kind``."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}  # invalid objects get a name too
    version = obj.get("apiVersion") or ""
    group_version = version if "/" in version else f"/{version}"
    space, name = (text if isinstance(text := metadata.get(key), str) else "" for key in ("namespace", "name"))
    return f"{space}/{name}; {group_version}, Kind={obj.get('kind') or ''}"


def fold_updaters(managed: Managed) -> Managed:
    """Merge the oldest update entries of each version into `ANCIENT_CHANGES` if there are too many."""
    if len(managed) <= MAX_UPDATE_MANAGERS:
        return managed
    updaters = sorted((key for key in managed if key.operation == UPDATE), key=lambda key: (managed[key].time, *key))
    surplus = len(updaters) - MAX_UPDATE_MANAGERS
    folded = dict(managed)
    first: dict[str, ManagerKey] = {}
    for key in updaters:
        if surplus <= 0:
            break
        version = managed[key].api_version
        bucket = ManagerKey.of(ANCIENT_CHANGES, UPDATE, version, "")
        if version not in first:
            first[version] = key
            continue
        if key == bucket:
            continue
        if bucket not in folded:
            folded[bucket] = folded.pop(first[version])
        old = folded.pop(key)
        folded[bucket] = old.with_fields(old.fields.union(folded[bucket].fields))
        surplus -= 1
    return folded
