"""Structured merge: what a value's fields are, how two values differ, and merging one into another, by shape.

A value is a tree of separately owned fields. Where its `Schema` is atomic, the whole
subtree is one field. Errors are `PatchError` with the server's messages: a path, then the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

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
from opsdk.structured_merge.value import JsonObject

ABSENT: Final = object()
"""No value at all, as opposed to null."""


_UNKNOWN: Final = Topology.UNKNOWN
"""By a name of its own, because looking up an enum's member takes long and every value asks for this one."""


# ------------------------------------------------------------------ elements and topology
def topology_for(shape: Schema, value: Any) -> Topology:
    """How `value` is treated: as its shape says, or by what it is where the shape is UNKNOWN."""
    if shape.topology is not _UNKNOWN:
        return shape.topology
    if isinstance(value, dict):
        return Topology.MAP
    return Topology.LIST_ATOMIC if isinstance(value, list) else Topology.SCALAR


def list_element(item: Any, shape: Schema) -> str:
    """The path element that tells `item` apart in a list of `shape`.

    Raises:
        PatchError: it cannot be told apart.
    """
    if shape.topology is Topology.LIST_SET:
        if item is None or isinstance(item, dict | list):
            raise PatchError(f"associative list without keys has an element that's {_UNFIT[type(item)]}")
        return value_element(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise PatchError(f"associative list with keys may not have {what}")
    defaults = shape.key_defaults
    key_values = {key: item.get(key, defaults.get(key)) for key in shape.list_keys if key in item or key in defaults}
    if not key_values:
        names = " ".join(map(go_quote, shape.list_keys))
        raise PatchError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return key_element(key_values)


_UNFIT: Final = {type(None): "an explicit null", dict: "a map type", list: "a list type"}


# ------------------------------------------------------------------ validation
def check_typed(value: Any, shape: Schema, *, allow_duplicates: bool = False) -> None:
    """See that `value` fits `shape`: declared fields, types, keys, no duplicates in sets and keyed lists.

    Raises:
        PatchError: it does not; all faults are in the message, `path` is that of the first.
    """
    faults = list(_faults(value, shape, (), allow_duplicates=allow_duplicates))
    if not faults:
        return
    texts = [f"{format_path(path)}: {text}" if path else text for path, text in faults]
    message = texts[0] if len(texts) == 1 else "\n  ".join(["errors:", *texts])
    raise PatchError(message, path=format_path(faults[0][0]))


Fault = tuple[tuple[str, ...], str]


def _faults(value: Any, shape: Schema, path: tuple[str, ...], *, allow_duplicates: bool) -> Iterator[Fault]:
    topology = topology_for(shape, value)
    if value is None:
        return
    if topology is Topology.SCALAR:
        yield from ((path, text) for text in _scalar_fault(value, shape))
    elif topology.is_list and not isinstance(value, list):
        yield path, f"expected list, got &{{{go_value(value)}}}"
    elif topology.is_list:
        yield from _list_faults(value, shape, path, allow_duplicates=allow_duplicates)
    elif not isinstance(value, dict):
        yield path, f"expected map, got &{{{go_value(value)}}}"
    else:
        yield from _map_faults(value, shape, path, allow_duplicates=allow_duplicates)


def _scalar_fault(value: Any, shape: Schema) -> Iterator[str]:
    match shape.scalar_type:
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


def _list_faults(value: list[Any], shape: Schema, path: tuple[str, ...], *, allow_duplicates: bool) -> Iterator[Fault]:
    elements: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if shape.topology in _KEYED:
            try:
                element = list_element(item, shape)
            except PatchError as error:
                yield path, f"element {index}: {error}"
                return
            if element in elements and not allow_duplicates:
                yield path, f"duplicate entries for key {format_path([element])}"
            elements.add(element)
        yield from _faults(item, shape.item(), (*path, element), allow_duplicates=allow_duplicates)


def _map_faults(
    value: Mapping[str, Any], shape: Schema, path: tuple[str, ...], *, allow_duplicates: bool
) -> Iterator[Fault]:
    for name, item in value.items():
        below = (*path, field_element(name))
        if not shape.admits(name):
            yield below, "field not declared in schema"
            return
        yield from _faults(item, shape.field(name), below, allow_duplicates=allow_duplicates)


_KEYED: Final = frozenset({Topology.LIST_SET, Topology.LIST_MAP})


# ------------------------------------------------------------------ the fields of a value
def to_field_set(value: Any, shape: Schema) -> FieldSet:
    """The fields that `value` sets.

    A named field counts by its content; an entry of a map and an element of a list also count themselves.
    """
    return _fields(value, shape) or EMPTY


def _fields(value: Any, shape: Schema) -> FieldSet | None:
    """What lies below; None says that the value itself is one field."""
    topology = topology_for(shape, value)
    if topology not in _GRANULAR:
        return None
    if topology in _KEYED:
        return _item_fields(value, shape) if isinstance(value, list) else EMPTY
    if not isinstance(value, dict):
        return EMPTY
    members: list[str] = []
    children: dict[str, FieldSet] = {}
    for name, item in value.items():
        element = field_element(name)
        below = _fields(item, shape.field(name))
        if below:
            children[element] = below
        if below is None or item is None or item == {} or not shape.declares(name):
            members.append(element)
    return FieldSet.from_parts(members, children)


def _item_fields(items: list[Any], shape: Schema) -> FieldSet:
    members: set[str] = set()
    children: dict[str, FieldSet] = {}
    for item in items:
        element = list_element(item, shape)
        members.add(element)
        below = _fields(item, shape.item())
        if below:
            children[element] = children[element].union(below) if element in children else below
    return FieldSet.from_parts(members, children)


_GRANULAR: Final = frozenset({Topology.STRUCT, Topology.MAP, Topology.LIST_SET, Topology.LIST_MAP})


# ------------------------------------------------------------------ comparing
@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields in which two values differ."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def without(self, ignored: FieldSet | None) -> Comparison:
        """The same, without `ignored` fields and what is below them."""
        if not ignored:
            return self
        return Comparison(
            added=self.added.recursive_difference(ignored),
            modified=self.modified.recursive_difference(ignored),
            removed=self.removed.recursive_difference(ignored),
        )

    @property
    def is_same(self) -> bool:
        """Whether the values do not differ."""
        return not (self.added or self.modified or self.removed)


_SAME: Final = Comparison(EMPTY, EMPTY, EMPTY)


class _Change(Enum):
    """What happened to the value at an element; None stands for nothing, whatever happened below it."""

    ADDED = "added"
    """It was not there."""
    MODIFIED = "modified"
    """It is another one."""
    REMOVED = "removed"
    """It is there no more."""


_Differences = list[tuple[str, _Change | None, Comparison]]
"""By element: what happened there, and what below. Mostly empty, so that is what costs least."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None), type(ABSENT)})


def compare(old: Any, new: Any, shape: Schema) -> Comparison:
    """What changes from `old` to `new`."""
    return _compare_below(old, new, shape)[1]


def _compare_at(old: Any, new: Any, shape: Schema, found: _Differences, element: str) -> None:
    """Compare what stands at `element`; both kinds of a changed type are looked into."""
    if old is ABSENT:
        found.append((element, _Change.ADDED, Comparison(_everything(new, shape), EMPTY, EMPTY)))
        return
    if new is ABSENT:
        found.append((element, _Change.REMOVED, Comparison(EMPTY, EMPTY, _everything(old, shape))))
        return
    leaf, below = _compare_below(old, new, shape)
    if leaf and not deep_equal(old, new):
        found.append((element, _Change.MODIFIED, below))
    elif below is not _SAME:
        found.append((element, None, below))


def _everything(value: Any, shape: Schema) -> FieldSet:
    """All that lies below a value which came or went as a whole; duplicates of a list are not looked into."""
    topology = topology_for(shape, value)
    if topology not in _GRANULAR:
        return EMPTY
    children: dict[str, FieldSet] = {}
    if topology in _KEYED:
        groups = _grouped(_as_list(value), shape)
        for element, items in groups.items():
            below = _everything(items[0], shape.item()) if len(items) == 1 else EMPTY
            if below:
                children[element] = below
        return FieldSet.from_parts(groups, children)
    entries = _as_dict(value)
    for name, item in entries.items():
        if type(item) not in _PLAIN:
            below = _everything(item, shape.field(name))
            if below:
                children[field_element(name)] = below
    return FieldSet.from_parts(map(field_element, entries) if entries else (), children)


def _compare_below(old: Any, new: Any, shape: Schema) -> tuple[bool, Comparison]:
    """Compare the parts of two values; True says that they have none and stand or fall as a whole."""
    if shape.topology is not _UNKNOWN:
        return _compare_as(shape.topology, old, new, shape)
    one, other = topology_for(shape, old), topology_for(shape, new)
    leaf, change = _compare_as(one, old, new, shape)
    if one is other:
        return leaf, change
    # As a map, a value that is none has lost all its parts; only one of the two can be looked into.
    other_leaf, other_change = _compare_as(other, old, new, shape)
    return leaf or other_leaf, change if other_change is _SAME else other_change


def _compare_as(topology: Topology, old: Any, new: Any, shape: Schema) -> tuple[bool, Comparison]:
    if topology not in _GRANULAR:
        return True, _SAME
    differences: _Differences = []
    if topology in _KEYED:
        items, others = _as_list(old), _as_list(new)
        _compare_lists(items, others, shape, differences)
        return not items and not others, _gathered(differences)
    before, after = _as_dict(old), _as_dict(new)
    _compare_maps(before, after, shape, differences)
    return not before and not after, _gathered(differences)  # null, {} and [] are different things to own


def _compare_maps(before: JsonObject, after: JsonObject, shape: Schema, found: _Differences) -> None:
    for name, new in after.items():
        old = before.get(name, ABSENT)
        if old is new:
            continue
        # Most fields are plain and the same: then neither the shape nor the path matters.
        kind = type(old)
        if kind is not type(new) or kind not in _PLAIN or old != new:
            _compare_at(old, new, shape.field(name), found, field_element(name))
    for name, old in before.items():
        if name not in after:
            _compare_at(old, ABSENT, shape.field(name), found, field_element(name))


def _gathered(found: _Differences) -> Comparison:
    """The three sets at one place, of what was found at its parts."""
    if not found:
        return _SAME
    return Comparison(
        added=_set_of(found, _Change.ADDED, {element: below.added for element, _, below in found}),
        modified=_set_of(found, _Change.MODIFIED, {element: below.modified for element, _, below in found}),
        removed=_set_of(found, _Change.REMOVED, {element: below.removed for element, _, below in found}),
    )


def _set_of(found: _Differences, wanted: _Change, below: dict[str, FieldSet]) -> FieldSet:
    members = [element for element, change, _ in found if change is wanted]
    return FieldSet.from_parts(members, {element: child for element, child in below.items() if child})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _compare_lists(old: Sequence[Any], new: Sequence[Any], shape: Schema, found: _Differences) -> None:
    before, after = _grouped(old, shape), _grouped(new, shape)
    for element in before | after:
        old_items, theirs = before.get(element, ()), after.get(element, ())
        if len(old_items) <= 1 and len(theirs) <= 1:
            one, other = (*old_items, ABSENT)[0], (*theirs, ABSENT)[0]
            if one is not other:
                _compare_at(one, other, shape.item(), found, element)
        elif not old_items:
            found.append((element, _Change.ADDED, _SAME))
        elif not theirs:
            found.append((element, _Change.REMOVED, _SAME))
        elif not deep_equal(old_items, theirs):
            found.append((element, _Change.MODIFIED, _SAME))


def _grouped(items: Sequence[Any], shape: Schema) -> dict[str, list[Any]]:
    """The list's items by path element; duplicates, which live objects may have, stand together."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(list_element(item, shape), []).append(item)
    return groups


# ------------------------------------------------------------------ merging
def merge(live: Any, applied: Any, shape: Schema) -> Any:
    """`live` with everything that `applied` sets; nothing is removed.

    Elements that `live` has not are put where `applied` has them, and shared ones take its order.
    """
    topology = topology_for(shape, live if applied is None else applied)
    if topology not in _GRANULAR:
        return applied
    if topology in _KEYED:
        items, others = _as_list(live), _as_list(applied)
        return _merge_lists(items, others, shape) if items or others else applied
    before, after = _as_dict(live), _as_dict(applied)
    return _merge_maps(before, after, shape) if before or after else applied


def _merge_maps(live: Any, applied: Any, shape: Schema) -> Any:
    result = dict(live)
    for name, value in applied.items():
        result[name] = merge(live[name], value, shape.field(name)) if name in live else value
    return result


def _merge_lists(live: list[Any], applied: list[Any], shape: Schema) -> list[Any]:
    """Walk both lists: what only `live` has comes as it is met, what `applied` has comes in its order."""
    live_elements = [list_element(item, shape) for item in live]
    right = [list_element(item, shape) for item in applied]
    applied_elements, unique_items = set(right), _unique(live, live_elements)
    present = set(live_elements)
    shared = [element for element in right if element in present]
    done: set[str] = set()
    result: list[Any] = []
    i = j = 0

    def take() -> None:
        nonlocal j
        element = right[j]
        done.add(element)
        live_item = unique_items.get(element, ABSENT)
        result.append(applied[j] if live_item is ABSENT else merge(live_item, applied[j], shape.item()))
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
            i += 1  # it has come, or will come, in the order of `applied`
        else:
            take()
    return result


def _unique(items: list[Any], elements: list[str]) -> JsonObject:
    """The items by element, without those that occur twice: nobody can say which one is meant."""
    by_element: JsonObject = {}
    twice: set[str] = set()
    for item, element in zip(items, elements, strict=True):
        if element in by_element:
            twice.add(element)
        by_element[element] = item
    return {element: item for element, item in by_element.items() if element not in twice}


# ------------------------------------------------------------------ removing and extracting
def remove_items(value: Any, fields: FieldSet, shape: Schema) -> Any:
    """`value` without `fields`; an object or list that loses everything becomes null."""
    return _select(value, fields, shape, extract=False)


def extract_items(value: Any, fields: FieldSet, shape: Schema) -> Any:
    """Only what `fields` names of `value`; null when that is nothing."""
    return _select(value, fields, shape, extract=True)


def _select(value: Any, fields: FieldSet, shape: Schema, *, extract: bool) -> Any:
    topology = topology_for(shape, value)
    if topology not in _GRANULAR or not value or not (fields or extract):
        return value
    if isinstance(value, list) and topology in _KEYED:
        pairs = ((list_element(item, shape), item, shape.item()) for item in value)
        items = [item for _, item in _chosen(pairs, fields, extract=extract)]
        return items or None
    if isinstance(value, dict):
        pairs = ((field_element(name), item, shape.field(name)) for name, item in value.items())
        return {element[2:]: item for element, item in _chosen(pairs, fields, extract=extract)} or None
    return value


def _chosen(items: Iterator[tuple[str, Any, Schema]], fields: FieldSet, *, extract: bool) -> Iterator[tuple[str, Any]]:
    for element, item, shape in items:
        below = fields.with_prefix(element)
        if element in fields.members:
            if extract:
                yield element, _select(item, below, shape, extract=True) if below else _itself(item, shape)
        elif below:
            yield element, _select(item, below, shape, extract=extract)
        elif not extract:
            yield element, item


def _itself(value: Any, shape: Schema) -> Any:
    """A value that is owned without its parts."""
    granular = topology_for(shape, value) in _GRANULAR and isinstance(value, dict | list)
    return type(value)() if granular else value


def ensure_named_fields_are_members(fields: FieldSet, shape: Schema) -> FieldSet:
    """`fields`, and every declared field that leads to one of them.

    Declared fields are never members by themselves when they have content; for removal they must count.
    """
    ancestors = {element for element in fields.children if element[0] == "f" and shape.declares(element[2:])}
    children = {
        element: ensure_named_fields_are_members(child, shape.field(element[2:]) if element[0] == "f" else shape.item())
        for element, child in fields.children.items()
    }
    return FieldSet(fields.members | ancestors, children)
