"""What a version of a kind cannot hold, kept in an annotation until an object is converted back. Pure.

Each entry has a path, what the round trip made of it, and what was there. It is restored only where the path still has
what the round trip made: an edit in the version without the field wins, so nothing that a user writes is undone.

Upstream: none; sigs.k8s.io/cluster-api keeps the whole hub in an annotation, and each conversion restores by hand.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import msgspec

from opsdk.structured_merge.equality import strict_equal
from opsdk.structured_merge.value import JsonObject, JsonValue

PREFIX: Final = "conversion.opsdk.dev/"
"""Of the annotation; the version whose fields it has follows."""
_TOP: Final = frozenset({"apiVersion", "kind", "metadata"})


class LostField(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that a conversion and the one back do not keep.

    Attributes:
        path: names of fields. A list is one value.
        made: what the round trip makes of it; unset if it leaves the field out.
        lost: what was there; unset if nothing was.
    """

    path: tuple[str, ...]
    made: JsonValue | msgspec.UnsetType = msgspec.UNSET
    lost: JsonValue | msgspec.UnsetType = msgspec.UNSET


def lost_fields(original: JsonObject, returned: JsonObject) -> list[LostField]:
    """Return the fields, besides metadata, that differ between an object and what its round trip returned.

    >>> lost_fields({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}})
    [LostField(path=('spec', 'b'), made=UNSET, lost=2)]
    """
    before, after = ({k: v for k, v in tree.items() if k not in _TOP} for tree in (original, returned))
    return list(_differences(before, after, ()))


def _differences(before: JsonObject, after: JsonObject, path: tuple[str, ...]) -> Iterator[LostField]:
    for name in sorted(before.keys() | after.keys()):
        lost, made = before.get(name, msgspec.UNSET), after.get(name, msgspec.UNSET)
        if isinstance(lost, dict) and isinstance(made, dict):
            yield from _differences(lost, made, (*path, name))
        elif not _is_equal(lost, made):
            yield LostField((*path, name), made, lost)


def restore(tree: JsonObject, fields: list[LostField]) -> JsonObject:
    """Return an object with the lost fields where it still has what the round trip made.

    >>> restore({"spec": {"a": 1}}, [LostField(("spec", "b"), lost=2)])
    {'spec': {'a': 1, 'b': 2}}
    >>> restore({"spec": {"b": 3}}, [LostField(("spec", "b"), lost=2)])
    {'spec': {'b': 3}}
    """
    restored = copy.deepcopy(tree)
    for field in fields:
        _restore_one(restored, field)
    return restored


def _restore_one(tree: JsonObject, field: LostField) -> None:
    *parents, name = field.path
    for parent in parents:
        below = tree.get(parent)
        if not isinstance(below, dict):
            return
        tree = below
    if not _is_equal(tree.get(name, msgspec.UNSET), field.made):
        return
    if field.lost is msgspec.UNSET:
        tree.pop(name, None)
    else:
        tree[name] = field.lost


def _is_equal(first: JsonValue | msgspec.UnsetType, second: JsonValue | msgspec.UnsetType) -> bool:
    if first is msgspec.UNSET or second is msgspec.UNSET:
        return first is second
    return strict_equal(first, second)


def keep_lost(tree: JsonObject, fields: list[LostField], version: str) -> JsonObject:
    """Return an object whose annotation has the lost fields of a version; without fields, it has no such annotation."""
    name = PREFIX + version
    metadata = tree.get("metadata") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != name}
    if fields:
        annotations[name] = msgspec.json.encode(fields).decode()
    metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**tree, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def restore_lost(tree: JsonObject, version: str) -> JsonObject:
    """Return an object with the fields that its annotation has of its version, and without the annotation.

    An annotation that opsdk did not write is dropped: a user may have edited it.
    """
    text = (tree.get("metadata", {}).get("annotations") or {}).get(PREFIX + version)
    if text is None:
        return tree
    try:
        fields = msgspec.json.decode(text, type=list[LostField])
    except msgspec.DecodeError:
        fields = []
    valid = [field for field in fields if field.path and field.path[0] not in _TOP]
    return keep_lost(restore(tree, valid), [], version)
