"""Keeps the fields of an object that its class does not declare.

Inputs are the tree from which an object was decoded (`origin`), the fields that the class decoded (`before`) and the
current object (`after`). The change from `before` to `after` is applied to `origin`. Fields that only `origin` has
stay, also inside list items. List items are paired by their identifying field, else by position.
"""

from __future__ import annotations

import msgspec

from opsdk.structured_merge.value import JsonObject, JsonValue

# Fields that identify an item of a Kubernetes list, the most specific first.
_NAMES = ("name", "key", "type", "uid", "id", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey")


def merge_unknown_fields(origin: JsonValue, before: JsonValue, after: JsonValue) -> JsonValue:
    """Return the tree to send. It shares its unchanged parts with the arguments: do not change it."""
    if _is_unchanged(before, after):
        return origin
    if origin == before:  # there are no unknown fields
        return after
    if isinstance(origin, dict) and isinstance(before, dict) and isinstance(after, dict):
        merged: JsonObject = {}
        for key, value in origin.items():
            if key in after:
                merged[key] = merge_unknown_fields(value, before[key], after[key]) if key in before else after[key]
            elif key not in before:
                merged[key] = value  # an unknown field
        return merged | {key: value for key, value in after.items() if key not in origin}
    if isinstance(origin, list) and isinstance(before, list) and isinstance(after, list):
        if len(origin) != len(before):  # impossible for a class that only drops unknown fields
            return after
        pairs = _pair(before, after)
        return [
            after[new] if old is None else merge_unknown_fields(origin[old], before[old], after[new])
            for new, old in ((new, pairs.get(new)) for new in range(len(after)))
        ]
    return after


def _is_unchanged(before: JsonValue, after: JsonValue) -> bool:
    """Whether two values are the same JSON; ``1`` and ``True`` are not."""
    if before != after:
        return False
    if isinstance(after, dict | list):
        # Comparing encoded bytes is the fastest for all types. Only a different key order needs the slow comparison.
        return msgspec.json.encode(before) == msgspec.json.encode(after)
    return type(before) is type(after)


def _pair(before: list[JsonValue], after: list[JsonValue]) -> dict[int, int]:
    """Map each index in `after` to the index of the same item in `before`."""
    name = next((n for n in _NAMES if _identifies_all(before, n) and _identifies_all(after, n)), None)
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


def _identifies_all(items: list[JsonValue], name: str) -> bool:
    """Whether every item is an object with a unique scalar value under `name`."""
    values = [item.get(name) if isinstance(item, dict) else None for item in items]
    return all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values)
