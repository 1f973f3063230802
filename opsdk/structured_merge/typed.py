"""Typed values: validation, field sets, comparison, merging and removal, by schema.

A value is a tree of separately owned fields. Where its `Schema` is atomic, the whole subtree is one field. Errors are
`PatchError` with the server's messages: a path, then the reason.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec

from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import (
    EMPTY,
    FieldSet,
    field_element,
    format_path,
    key_element,
    value_element,
)
from opsdk.structured_merge.go_format import go_quote, go_syntax, go_typename, go_value
from opsdk.structured_merge.schema import Schema, Topology
from opsdk.structured_merge.value import JsonObject, JsonValue

ABSENT: Final = object()
"""A missing value, as opposed to null."""


_UNKNOWN: Final = Topology.UNKNOWN

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_SCALAR, _MAP, _LIST_ATOMIC = Topology.SCALAR, Topology.MAP, Topology.LIST_ATOMIC
"""A module constant, because an enum member lookup is slow and every value needs this one."""


# ------------------------------------------------------------------ elements and topology
def topology_for(schema: Schema, value: JsonValue) -> Topology:
    """Return the topology of the schema, or the one deduced from `value` if the schema is UNKNOWN."""
    if schema.topology is not _UNKNOWN:
        return schema.topology
    if isinstance(value, dict):
        return _MAP
    return _LIST_ATOMIC if isinstance(value, list) else _SCALAR


def list_element(item: JsonValue, schema: Schema) -> str:
    """Return the path element that identifies `item` in a list of `schema`.

    Raises:
        PatchError: the item cannot be identified.
    """
    if schema.topology is Topology.LIST_SET:
        if item is None or isinstance(item, dict | list):
            raise PatchError(f"associative list without keys has an element that's {_UNFIT[type(item)]}")
        return value_element(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise PatchError(f"associative list with keys may not have {what}")
    defaults = schema.key_defaults
    key_values = {key: item.get(key, defaults.get(key)) for key in schema.list_keys if key in item or key in defaults}
    if not key_values:
        names = " ".join(map(go_quote, schema.list_keys))
        raise PatchError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return key_element(key_values)


_UNFIT: Final = {type(None): "an explicit null", dict: "a map type", list: "a list type"}


# ------------------------------------------------------------------ validation
def check_typed(value: JsonValue, schema: Schema, *, allow_duplicates: bool = False) -> None:
    """Check that `value` fits `schema`: declared fields, types, keys, no duplicates in sets and keyed lists.

    Raises:
        PatchError: the value does not fit. The message has all errors; `path` is that of the first one.
    """
    faults: list[Fault] = []
    _find_faults(value, schema, (), faults, allow_duplicates=allow_duplicates)
    if not faults:
        return
    texts = [f"{format_path(path)}: {text}" if path else text for path, text in faults]
    message = texts[0] if len(texts) == 1 else "\n  ".join(["errors:", *texts])
    raise PatchError(message, path=format_path(faults[0][0]))


Fault = tuple[tuple[str, ...], str]


def _find_faults(
    value: JsonValue, schema: Schema, path: tuple[str, ...], faults: list[Fault], *, allow_duplicates: bool
) -> None:
    """Add what does not fit the schema, with paths."""
    if value is None:
        return
    topology = topology_for(schema, value)
    if topology is _SCALAR:
        faults += [(path, text) for text in _scalar_fault(value, schema)]
    elif topology.is_list and not isinstance(value, list):
        faults.append((path, f"expected list, got &{{{go_value(value)}}}"))
    elif topology.is_list:
        _find_list_faults(value, schema, path, faults, allow_duplicates=allow_duplicates)
    elif not isinstance(value, dict):
        faults.append((path, f"expected map, got &{{{go_value(value)}}}"))
    else:
        for name, item in value.items():
            field = schema.used_fields.get(name) or schema.admitted(name)
            if field is None:
                faults.append(((*path, "f:" + name), "field not declared in schema"))
                return
            # Most values are scalars that fit.
            if field.topology is not _SCALAR or type(item) not in _FITTING.get(field.scalar_type, _SCALARS):
                _find_faults(item, field, (*path, "f:" + name), faults, allow_duplicates=allow_duplicates)


_SCALARS: Final = frozenset({str, int, float, bool})
_FITTING: Final = {
    "integer": frozenset({int, float}),
    "number": frozenset({int, float}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
}


def _scalar_fault(value: JsonValue, schema: Schema) -> Iterator[str]:
    match schema.scalar_type:
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                yield f"expected numeric (int or float), got {go_typename(value)}"
        case "string":
            if not isinstance(value, str):
                yield f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
        case "boolean":
            if not isinstance(value, bool):
                yield f"expected boolean, got &{{{go_value(value)}}}"
        case _:
            if isinstance(value, dict | list):
                yield f"expected any scalar, got &{{{go_value(value)}}}"


def _find_list_faults(
    value: list[JsonValue], schema: Schema, path: tuple[str, ...], faults: list[Fault], *, allow_duplicates: bool
) -> None:
    """Add what does not fit in a list: items without keys, duplicates, faults of the items."""
    elements: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if schema.topology in _KEYED:
            try:
                element = list_element(item, schema)
            except PatchError as error:
                faults.append((path, f"element {index}: {error}"))
                return
            if element in elements and not allow_duplicates:
                faults.append((path, f"duplicate entries for key {format_path([element])}"))
            elements.add(element)
        _find_faults(item, schema.item(), (*path, element), faults, allow_duplicates=allow_duplicates)


_KEYED: Final = frozenset({Topology.LIST_SET, Topology.LIST_MAP})


# ------------------------------------------------------------------ the fields of a value
def to_field_set(value: JsonValue, schema: Schema) -> FieldSet:
    """Return the fields that `value` sets (``TypedValue.ToFieldSet``).

    A declared field counts through its content. An entry of a map and an element of a list also count themselves.
    """
    return _fields(value, schema) or EMPTY


def _fields(value: JsonValue, schema: Schema) -> FieldSet | None:
    """Return the fields below; None if the value itself is one field."""
    topology = topology_for(schema, value)
    if topology not in _GRANULAR:
        return None
    if topology in _KEYED:
        return _item_fields(value, schema) if isinstance(value, list) else EMPTY
    if not isinstance(value, dict):
        return EMPTY
    members: list[str] = []
    children: dict[str, FieldSet] = {}
    for name, item in value.items():
        element, field = "f:" + name, schema.used_fields.get(name) or schema.field(name)
        # Most values are scalars.
        below = None if field.topology is _SCALAR else _fields(item, field)
        if below is None:
            members.append(element)
            continue
        if below is not EMPTY:
            children[element] = below
        if item is None or item == {} or not schema.declares(name):
            members.append(element)
    return FieldSet.from_parts(members, children)


def _item_fields(items: list[JsonValue], schema: Schema) -> FieldSet:
    members: set[str] = set()
    children: dict[str, FieldSet] = {}
    for item in items:
        element = list_element(item, schema)
        members.add(element)
        below = _fields(item, schema.item())
        if below is not None and below is not EMPTY:
            children[element] = children[element].union(below) if element in children else below
    return FieldSet.from_parts(members, children)


_GRANULAR: Final = frozenset({Topology.STRUCT, _MAP, Topology.LIST_SET, Topology.LIST_MAP})


# ------------------------------------------------------------------ comparing
class Comparison(msgspec.Struct, frozen=True):
    """The fields in which two values differ."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def without(self, ignored: FieldSet | None) -> Comparison:
        """Return the comparison without `ignored` fields and the fields below them."""
        if not ignored:
            return self
        return Comparison(
            added=self.added.recursive_difference(ignored),
            modified=self.modified.recursive_difference(ignored),
            removed=self.removed.recursive_difference(ignored),
        )

    @property
    def written(self) -> FieldSet:
        """The fields that the new value has, and that the old one lacks or has with another value."""
        return self.modified.union(self.added)


_SAME: Final = Comparison(EMPTY, EMPTY, EMPTY)


class _Change(Enum):
    """The change of the value at an element. None means that only fields below it may differ."""

    __hash__ = object.__hash__  # members are singletons; an enum's own hash is ten times slower

    ADDED = "added"
    """The new value exists, the old one does not."""
    MODIFIED = "modified"
    """The values differ."""
    REMOVED = "removed"
    """The old value exists, the new one does not."""


_Differences = list[tuple[str, _Change | None, Comparison]]
"""For each element: the change there, and the comparison below. A list, because it is mostly empty."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None), type(ABSENT)})


def compare(old: JsonValue, new: JsonValue, schema: Schema) -> Comparison:
    """Return the fields that change from `old` to `new`."""
    return _compare_below(old, new, schema)[1]


def _compare_at(old: JsonValue, new: JsonValue, schema: Schema, differences: _Differences, element: str) -> None:
    """Compare the values at `element`; if the type changed, compare the fields of both types."""
    if old is ABSENT:
        fields = _all_fields(new, schema)
        differences.append((element, _Change.ADDED, Comparison(fields, EMPTY, EMPTY) if fields else _SAME))
        return
    if new is ABSENT:
        fields = _all_fields(old, schema)
        differences.append((element, _Change.REMOVED, Comparison(EMPTY, EMPTY, fields) if fields else _SAME))
        return
    leaf, below = _compare_below(old, new, schema)
    if leaf and not deep_equal(old, new):
        differences.append((element, _Change.MODIFIED, below))
    elif below is not _SAME:
        differences.append((element, None, below))


def _all_fields(value: JsonValue, schema: Schema) -> FieldSet:
    """Return all fields below a value that was added or removed as a whole. Duplicates in a list are skipped."""
    topology = topology_for(schema, value)
    if topology not in _GRANULAR:
        return EMPTY
    children: dict[str, FieldSet] = {}
    if topology in _KEYED:
        groups = _grouped(_as_list(value), schema)
        for element, items in groups.items():
            below = _all_fields(items[0], schema.item()) if len(items) == 1 else EMPTY
            if below:
                children[element] = below
        return FieldSet.from_parts(groups, children)
    entries = _as_dict(value)
    for name, item in entries.items():
        if type(item) not in _PLAIN:
            below = _all_fields(item, schema.field(name))
            if below:
                children["f:" + name] = below
    return FieldSet.from_parts(["f:" + name for name in entries], children)


def _compare_below(old: JsonValue, new: JsonValue, schema: Schema) -> tuple[bool, Comparison]:
    """Compare the parts of two values. True means that they have none and change as a whole."""
    if schema.topology is not _UNKNOWN:
        return _compare_as(schema.topology, old, new, schema)
    one, other = topology_for(schema, old), topology_for(schema, new)
    leaf, change = _compare_as(one, old, new, schema)
    if one is other:
        return leaf, change
    # The types differ: compared as a map, a value of another type has no fields. Only one of the two has content.
    other_leaf, other_change = _compare_as(other, old, new, schema)
    return leaf or other_leaf, change if other_change is _SAME else other_change


def _compare_as(topology: Topology, old: JsonValue, new: JsonValue, schema: Schema) -> tuple[bool, Comparison]:
    """Return whether both values are empty, and their difference in the parts that this topology has."""
    if topology not in _GRANULAR:
        return True, _SAME
    differences: _Differences = []
    if topology in _KEYED:
        items, others = _as_list(old), _as_list(new)
        old_groups, new_groups = _grouped(items, schema), _grouped(others, schema)
        for element in old_groups | new_groups:
            old_items, theirs = old_groups.get(element, ()), new_groups.get(element, ())
            if len(old_items) <= 1 and len(theirs) <= 1:
                one, other = (*old_items, ABSENT)[0], (*theirs, ABSENT)[0]
                if one is not other:
                    _compare_at(one, other, schema.item(), differences, element)
            elif not old_items:
                differences.append((element, _Change.ADDED, _SAME))
            elif not theirs:
                differences.append((element, _Change.REMOVED, _SAME))
            elif not deep_equal(old_items, theirs):
                differences.append((element, _Change.MODIFIED, _SAME))
        return not items and not others, _comparison_of(differences)
    before, after = _as_dict(old), _as_dict(new)
    _compare_maps(before, after, schema, differences)
    return not before and not after, _comparison_of(differences)  # null, {} and [] are different owned values


def _compare_maps(before: JsonObject, after: JsonObject, schema: Schema, differences: _Differences) -> None:
    for name, new in after.items():
        old = before.get(name, ABSENT)
        if old is new:
            continue
        # Most fields are equal scalars, which need neither the schema nor the path.
        kind = type(old)
        if old is ABSENT and type(new) in _PLAIN:
            differences.append(("f:" + name, _Change.ADDED, _SAME))
        elif kind is not type(new) or kind not in _PLAIN or old != new:
            _compare_at(old, new, schema.field(name), differences, "f:" + name)
    for name, old in before.items():
        if name not in after:
            _compare_at(old, ABSENT, schema.field(name), differences, field_element(name))


def _comparison_of(differences: _Differences) -> Comparison:
    """Return the comparison for a value, from the differences of its parts."""
    if not differences:
        return _SAME
    members: dict[_Change, list[str]] = {_Change.ADDED: [], _Change.MODIFIED: [], _Change.REMOVED: []}
    added: dict[str, FieldSet] = {}
    modified: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    for element, change, below in differences:
        if change is not None:
            members[change].append(element)
        if below is not _SAME:
            if below.added:
                added[element] = below.added
            if below.modified:
                modified[element] = below.modified
            if below.removed:
                removed[element] = below.removed
    return Comparison(
        FieldSet.from_parts(members[_Change.ADDED], added),
        FieldSet.from_parts(members[_Change.MODIFIED], modified),
        FieldSet.from_parts(members[_Change.REMOVED], removed),
    )


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _as_dict(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _grouped(items: Sequence[JsonValue], schema: Schema) -> dict[str, list[JsonValue]]:
    """Return the items by path element. Duplicates, which live objects may have, share one element."""
    groups: dict[str, list[JsonValue]] = {}
    for item in items:
        groups.setdefault(list_element(item, schema), []).append(item)
    return groups


# ------------------------------------------------------------------ merging
def merge(live: JsonValue, applied: JsonValue, schema: Schema) -> JsonValue:
    """Return `live` with everything that `applied` sets. Nothing is removed.

    Items that `live` does not have go where `applied` has them; shared items take the order of `applied`.
    """
    topology = topology_for(schema, live if applied is None else applied)
    if topology not in _GRANULAR:
        return applied
    if topology in _KEYED:
        items, others = _as_list(live), _as_list(applied)
        return _merge_lists(items, others, schema) if items or others else applied
    before, after = _as_dict(live), _as_dict(applied)
    if not before and not after:
        return applied
    result = dict(before)
    for name, value in after.items():
        result[name] = merge(before[name], value, schema.field(name)) if name in before else value
    return result


def _merge_lists(live: list[JsonValue], applied: list[JsonValue], schema: Schema) -> list[JsonValue]:
    """Walk both lists: items only in `live` keep their place, items of `applied` keep its order."""
    live_elements = [list_element(item, schema) for item in live]
    right = [list_element(item, schema) for item in applied]
    applied_elements, unique_items = set(right), _unique(live, live_elements)
    present = set(live_elements)
    shared = [element for element in right if element in present]
    done: set[str] = set()
    result: list[JsonValue] = []
    i = j = 0

    def take() -> None:
        nonlocal j
        element = right[j]
        done.add(element)
        live_item = unique_items.get(element, ABSENT)
        result.append(applied[j] if live_item is ABSENT else merge(live_item, applied[j], schema.item()))
        if shared and shared[0] == element:
            shared.pop(0)
        j += 1

    while i < len(live_elements) or j < len(right):
        if i < len(live_elements) and j < len(right) and live_elements[i] == right[j]:
            take()
            i += 1
        elif i < len(live_elements) and live_elements[i] not in applied_elements:
            result.append(live[i])
            i += 1
        elif i < len(live_elements) and (
            j >= len(right) or live_elements[i] in done or (shared and shared[0] != live_elements[i])
        ):
            i += 1  # already taken, or taken later in the order of `applied`
        else:
            take()
    return result


def _unique(items: list[JsonValue], elements: list[str]) -> JsonObject:
    """Return the items by element, without elements that occur twice: those are ambiguous."""
    by_element: JsonObject = {}
    twice: set[str] = set()
    for item, element in zip(items, elements, strict=True):
        if element in by_element:
            twice.add(element)
        by_element[element] = item
    return {element: item for element, item in by_element.items() if element not in twice}


# ------------------------------------------------------------------ removing
def remove_items(value: JsonValue, fields: FieldSet, schema: Schema) -> JsonValue:
    """Return `value` without `fields`. An object or list that loses everything becomes null."""
    topology = topology_for(schema, value)
    if topology not in _GRANULAR or not value or not fields:
        return value
    if isinstance(value, list) and topology in _KEYED:
        pairs = ((list_element(item, schema), item, schema.item()) for item in value)
        return [item for _, item in _remaining(pairs, fields)] or None
    if isinstance(value, dict):
        pairs = ((field_element(name), item, schema.field(name)) for name, item in value.items())
        return {element[2:]: item for element, item in _remaining(pairs, fields)} or None
    return value


def _remaining(items: Iterator[tuple[str, JsonValue, Schema]], fields: FieldSet) -> Iterator[tuple[str, JsonValue]]:
    """Yield the items that are not in the set, without their parts that are."""
    for element, item, schema in items:
        if element in fields.members:
            continue
        below = fields.with_prefix(element)
        yield element, remove_items(item, below, schema) if below else item


def ensure_named_fields_are_members(fields: FieldSet, schema: Schema) -> FieldSet:
    """Return `fields` plus every declared field on the way to one of them (``EnsureNamedFieldsAreMembers``).

    Declared fields with content are not members by themselves, but removal must count them.
    """
    ancestors = {element for element in fields.children if element[0] == "f" and schema.declares(element[2:])}
    children = {
        element: ensure_named_fields_are_members(
            child, schema.field(element[2:]) if element[0] == "f" else schema.item()
        )
        for element, child in fields.children.items()
    }
    return FieldSet(fields.members | ancestors, children)
