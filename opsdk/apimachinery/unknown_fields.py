"""Keep what a type does not know.

Given the tree an object came from (`origin`), what its type made of that tree (`before`) and what the type says now
(`after`), the change from `before` to `after` is carried over to `origin`. Fields that stand only in `origin` stay,
also inside list items: these are paired by what names them, else by their place.
"""

from __future__ import annotations

from typing import Any

from opsdk.structured_merge.value import JsonObject

# Fields that name an item of a Kubernetes list, most telling first.
_NAMES = ("name", "key", "type", "uid", "id", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey")


def merge_unknown_fields(origin: Any, before: Any, after: Any) -> Any:
    """The tree to send. Shares nothing mutable with its arguments except parts of `after`."""
    if isinstance(origin, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _overlay_dict(origin, before, after)
    if isinstance(origin, list) and isinstance(before, list) and isinstance(after, list):
        return _overlay_list(origin, before, after)
    return after if after != before else _copy(origin)


def _overlay_dict(origin: JsonObject, before: JsonObject, after: JsonObject) -> JsonObject:
    merged: JsonObject = {}
    for key, value in origin.items():
        if key in after:
            merged[key] = merge_unknown_fields(value, before[key], after[key]) if key in before else after[key]
        elif key not in before:
            merged[key] = _copy(value)  # unknown to the type
    return merged | {key: value for key, value in after.items() if key not in origin}


def _overlay_list(origin: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(origin) != len(before):  # cannot happen for a type that only drops unknown fields
        return after
    if before == after:
        return _copy(origin)  # type: ignore[no-any-return]
    pairs = _pair(before, after)
    return [
        after[new] if old is None else merge_unknown_fields(origin[old], before[old], after[new])
        for new, old in ((new, pairs.get(new)) for new in range(len(after)))
    ]


def _pair(before: list[Any], after: list[Any]) -> dict[int, int]:
    """Index in `after` -> index in `before` of the same item."""
    name = next((n for n in _NAMES if _names_all(before, n) and _names_all(after, n)), None)
    if name is not None:
        places = {item[name]: index for index, item in enumerate(before)}
        return {index: places[item[name]] for index, item in enumerate(after) if item[name] in places}
    pairs: dict[int, int] = {}
    free = list(range(len(before)))
    for index, item in enumerate(after):
        same = next((old for old in free if before[old] == item), None)
        if same is not None:
            pairs[index] = same
            free.remove(same)
    if len(before) == len(after):
        pairs |= {index: index for index in free if index not in pairs}
    return pairs


def _names_all(items: list[Any], name: str) -> bool:
    """Whether every item is an object with its own scalar value under `name`."""
    values = [item.get(name) if isinstance(item, dict) else None for item in items]
    return all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values)


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _copy(v) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_copy(v) for v in tree]
    return tree
