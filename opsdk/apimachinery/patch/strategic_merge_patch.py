"""Strategic merge patch: a merge patch that matches list elements by merge keys and obeys directives.

Directives inside the patch: ``$patch`` (replace or delete a map or a list element), ``$retainKeys`` (drop all other
fields), ``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. Error messages are the server's.

Upstream: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go (v1.36)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal, identity
from opsdk.structured_merge.go_format import go_scalar, go_string, go_value
from opsdk.structured_merge.schema import Schema, Topology
from opsdk.structured_merge.value import JsonObject, JsonValue

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
_DELETE_FROM: Final = DELETE_FROM + "/"
_SET_ORDER: Final = SET_ORDER + "/"
_MAPS: Final = frozenset({Topology.MAP, Topology.MAP_ATOMIC})


def apply_strategic(
    original: Mapping[str, JsonValue] | None, patch: Mapping[str, JsonValue], schema: Schema
) -> JsonObject:
    """Return `original` with `patch` merged in, by the merge keys of `schema`.

    Raises:
        PatchError: a directive or a list element is invalid; the message is the server's.
    """
    return _merge_map(dict(original or {}), dict(patch), schema)


# ------------------------------------------------------------------ maps
def _merge_map(original: JsonObject, patch: JsonObject, schema: Schema) -> JsonObject:
    """Merge `patch` into `original`. Changes both at their first level."""
    match patch.get(PATCH, _DROPPED):
        case _ if PATCH not in patch:
            pass
        case "replace":
            return {key: value for key, value in patch.items() if key != PATCH}
        case "delete":
            return {}
        case _:
            raise _bad_directive(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for name, value in patch.items():
        deleting = name.startswith(_DELETE_FROM)
        key = name.removeprefix(_DELETE_FROM)
        if value is None:
            original.pop(key, None)
        elif deleting:
            if isinstance(value, list) and isinstance(original.get(key), list):
                _of_maps(original[key], value)
                original[key] = _without(original[key], value)
        elif key in original and _json_type(original[key]) == _json_type(value):
            if isinstance(value, dict | list) and schema.topology in _MAPS and not schema.fields:
                raise PatchError("merging an object in json but data type is not struct, instead is: map")
            original[key] = _merge_value(original[key], value, schema.field(key))
        else:
            _set_new(original, key, value)
    return original


def _bad_directive(patch: Mapping[str, JsonValue]) -> PatchError:
    return PatchError(f"unknown patch type: {go_string(patch[PATCH])} in map: {go_value(patch)}")


def _set_new(original: JsonObject, key: str, value: JsonValue) -> None:
    """Set a field that has no counterpart in `original`, without nulls and directives."""
    value_to_set = _without_directives(value)
    if value_to_set is _DROPPED:
        original.pop(key, None)
    else:
        original[key] = value_to_set


_DROPPED: Final = object()


def _without_directives(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        if value.get(PATCH) is not None:
            return _DROPPED
        fields = {key: _without_directives(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in fields.items() if item is not _DROPPED}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROPPED]
    return value


def _merge_value(original: JsonValue, value: JsonValue, schema: Schema) -> JsonValue:
    replace = "replace" in schema.patch_strategies
    if isinstance(value, dict):
        return value if replace else _merge_map(dict(original), dict(value), schema)
    if isinstance(value, list) and "merge" in schema.patch_strategies:
        return _merge_list(original, value, schema)
    return value


def _json_type(value: JsonValue) -> str:
    """Return the Go type that represents a JSON value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
    return "<nil>"


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if RETAIN_KEYS not in patch:
        return
    listed = patch.pop(RETAIN_KEYS)
    if not isinstance(listed, list):
        raise PatchError("invalid patch format of retainKeys")
    retained = {key for key in listed if isinstance(key, str)}
    for key, value in patch.items():
        directive = key.startswith((_DELETE_FROM, _SET_ORDER))
        if value is not None and not directive and key not in retained:
            raise PatchError("invalid patch format of retainKeys")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _without(items: Sequence[JsonValue], removed: Sequence[JsonValue]) -> list[JsonValue]:
    identities = set(map(identity, removed))
    return [item for item in items if identity(item) not in identities]


# ------------------------------------------------------------------ lists
def _merge_ordered_lists(original: JsonObject, patch: JsonObject, schema: Schema) -> None:
    """Merge the lists that have a `$setElementOrder`, and remove them from the patch."""
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(directive)
        key = directive.removeprefix(_SET_ORDER)
        before, change = original.get(key), patch.get(key)
        for value in (order, before, change):
            if value is not None and not isinstance(value, list):
                raise PatchError(f"expected a []interface {{}}, but received a {_json_type(value)}")
        element = schema.field(key)
        _check_order(change or [], order or [], element.patch_merge_key)
        if before is None and change is None:
            continue
        if change is None:
            merged = before or []
        elif before is None:
            merged = _without_directives(change)
        else:
            merged = _merge_value(before, change, element)
        listed, rest = _partition(merged, order or [], element.patch_merge_key)
        if not before and not change:
            raise PatchError("no elements in any of the given slices")
        original[key] = _interleave(listed, rest, before or [], element.patch_merge_key)
        patch.pop(key, None)


def _merge_list(original: list[JsonValue], patch: list[JsonValue], schema: Schema) -> list[JsonValue]:
    """Merge two lists by their merge key, or as a set, in the order of the patch. Raises `PatchError`."""
    if not original and not patch:
        return original
    if not _of_maps(original, patch):
        merged: list[JsonValue] = list({identity(item): item for item in reversed([*original, *patch])}.values())[::-1]
        listed, rest = _partition(merged, patch, "")
        return _interleave(listed, rest, original, "")
    key = schema.patch_merge_key
    if not key:
        # Upstream merges only lists of strings without a key.
        raise PatchError("cannot merge lists without merge key for string")
    original, patch = _special_elements(original, patch, key)
    merged = list(original) if patch else original
    places: dict[Hashable, int] = {}
    for position, item in enumerate(merged if patch else ()):
        if key in item:
            places.setdefault(identity(item[key]), position)
    for item in patch:
        key_identity = identity(_merge_key(item, key))
        index = places.get(key_identity)
        if index is None:
            places[key_identity] = len(merged)
            merged.append(item)  # unchanged, directives included, as upstream's mergeSliceWithoutSpecialElements
        else:
            merged[index] = _merge_map(dict(merged[index]), dict(item), schema.item())
    listed, rest = _partition(merged, patch, key)
    return _interleave(listed, rest, original, key)


def _of_maps(original: list[JsonValue], patch: list[JsonValue]) -> bool:
    """Whether the elements are maps. Raises `PatchError` if their types differ."""
    types = {_json_type(item) for item in [*original, *patch]}
    if len(types) > 1:
        raise PatchError(f"list element types are not identical: {go_value([original, patch])}")
    if types == {"[]interface {}"}:
        raise PatchError("lists of lists are not supported")
    return types == {"map[string]interface {}"}


def _special_elements(
    original: list[JsonValue], patch: list[JsonValue], key: str
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Apply the elements with a `$patch` directive; return the original and the elements that are left to merge."""
    plain: list[JsonValue] = []
    deleted: set[Hashable] = set()
    replace = False
    for item in patch:
        match item.get(PATCH, _DROPPED):
            case _ if PATCH not in item:
                plain.append(item)
            case "delete":
                deleted.add(identity(_merge_key(item, key)))
            case "replace":
                replace = True
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch")
            case _:
                raise _bad_directive(item)
    if replace:
        return plain, []
    if deleted:
        original = [item for item in original if key not in item or identity(item[key]) not in deleted]
    return original, plain


def _merge_key(item: Mapping[str, JsonValue], key: str) -> JsonValue:
    if key not in item:
        raise PatchError(f"map: {go_value(item)} does not contain declared merge key: {key}")
    return item[key]


# ------------------------------------------------------------------ the order of list elements
def _identity(item: JsonValue, key: str) -> Hashable:
    return identity(item.get(key) if key and isinstance(item, dict) else item)


def _places(items: Sequence[JsonValue], key: str) -> dict[Hashable, int]:
    """Return the first position of each element, by the identity of its merge key."""
    places: dict[Hashable, int] = {}
    for position, item in enumerate(items):
        places.setdefault(_identity(item, key), position)
    return places


def _partition(
    merged: list[JsonValue], order: Sequence[JsonValue], key: str
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Return the elements that `order` names, in its order, and the other elements in theirs."""
    for item in merged if key else ():
        _merge_key(item, key)
    places = _places(order, key)
    placed = [(places.get(_identity(item, key), -1), item) for item in merged]
    listed = sorted((pair for pair in placed if pair[0] >= 0), key=lambda pair: pair[0])
    return [item for _, item in listed], [item for position, item in placed if position < 0]


def _interleave(listed: list[JsonValue], rest: list[JsonValue], before: list[JsonValue], key: str) -> list[JsonValue]:
    """Return one list: `listed` in its order, with each element of `rest` before the elements that it preceded."""
    result: list[JsonValue] = []
    places = _places(before, key)
    others = deque((places.get(_identity(item, key), -1), item) for item in rest)
    for item in listed:
        position = places.get(_identity(item, key), -1)
        while others and 0 <= others[0][0] < position:
            result.append(others.popleft()[1])
        result.append(item)
    return result + [item for _, item in others]


def _check_order(patch: list[JsonValue], order: list[JsonValue], key: str) -> None:
    """Check that the patch's elements appear in the order list, in the same order. One list may be empty."""
    if not patch or not order:
        return
    expected = iter([item for item in patch if not key or _keyed(item).get(PATCH) != "delete"])
    missing = next(expected, _DROPPED)
    for item in order:
        if missing is _DROPPED:
            return
        if deep_equal(_identity_in_patch(missing, key), _identity_in_patch(item, key)):
            missing = next(expected, _DROPPED)
    if missing is not _DROPPED:
        lists = f"{go_value(patch)}\n doesn't match {SET_ORDER} list:\n{go_value(order)}\n"
        raise PatchError(f"The order in patch list:\n{lists}")


def _identity_in_patch(item: JsonValue, key: str) -> JsonValue:
    """Return the merge key's value, or the element itself in a list without a merge key."""
    return _merge_key(_keyed(item), key) if key else item


def _keyed(item: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(item, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {_json_type(item)}")
    return item


# ------------------------------------------------------------------ creating
class _Elements(msgspec.Struct, frozen=True):
    """The elements of a list by merge key."""

    by_key: Mapping[str, JsonObject]

    @classmethod
    def of(cls, items: Sequence[JsonValue], key: str) -> _Elements:
        """Index `items`. Raises `PatchError` if an element has no merge key."""
        keys = ((_merge_key(item, key), item) for item in items)
        return cls({f"{_json_type(value)}:{go_scalar(value)}": item for value, item in keys})


def create_strategic(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], schema: Schema) -> JsonObject:
    """Return the patch that turns `old` into `new`; ``{}`` if they are equal.

    Raises:
        PatchError: an element of a list with a merge key has no key.
    """
    patch: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif not deep_equal(old[key], value):
            _diff_field(patch, key, old[key], value, schema.field(key))
    return patch


def _diff_field(patch: JsonObject, key: str, old: JsonValue, new: JsonValue, schema: Schema) -> None:
    """Add the change of one field to the patch."""
    merge_list = isinstance(new, list) and isinstance(old, list) and "merge" in schema.patch_strategies
    if isinstance(old, dict) and isinstance(new, dict) and "replace" not in schema.patch_strategies:
        patch[key] = _diff_map(old, new, schema, retain="retainKeys" in schema.patch_strategies)
    elif merge_list and _of_maps(old, new):
        _diff_elements(patch, key, old, new, schema)
    elif merge_list:
        if gone := _without(old, new):
            patch[_DELETE_FROM + key] = gone
        if added := _without(new, old):
            patch[key] = added
        if new:
            patch[_SET_ORDER + key] = list(new)
    else:
        patch[key] = new


def _diff_map(old: JsonObject, new: JsonObject, schema: Schema, *, retain: bool) -> JsonObject:
    patch = create_strategic(old, new, schema)
    return {**patch, RETAIN_KEYS: sorted(new)} if retain else patch


def _diff_elements(patch: JsonObject, key: str, old: list[JsonValue], new: list[JsonValue], schema: Schema) -> None:
    """Add the changes of a list with a merge key to the patch: changed, new and deleted elements, and the order."""
    merge_key = schema.patch_merge_key
    before, after = _Elements.of(old, merge_key).by_key, _Elements.of(new, merge_key).by_key
    retain = "retainKeys" in schema.patch_strategies
    changes: list[JsonValue] = []
    for name, item in after.items():
        if name not in before:
            changes.append(item)
        elif not deep_equal(before[name], item):
            changes.append({**_diff_map(before[name], item, schema.item(), retain=retain), merge_key: item[merge_key]})
    gone = [{PATCH: "delete", merge_key: item[merge_key]} for name, item in before.items() if name not in after]
    if changes or gone:
        patch[key] = changes + gone
    if after:
        patch[_SET_ORDER + key] = [{merge_key: item[merge_key]} for item in new]
