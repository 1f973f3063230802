"""JSON patch (RFC 6902), as kube-apiserver applies it.

Upstream: gopkg.in/evanphx/json-patch.v4 (kube-apiserver v1.36)

Deviations of that library from the RFC, reproduced here: negative indices count from the end; ``replace`` and ``copy``
accept a missing object member; ``test`` treats a missing member as null; text before the first slash of a path is
ignored; of all operations only ``replace`` takes the whole document, whose new value is an object or a list.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opsdk.base.limits import LIMITS
from opsdk.errors import PatchError, TooLargeError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.paths import format_pointer, unescape_part
from opsdk.structured_merge.value import JsonObject, JsonValue

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")
_MAX_DEPTH: Final = 200
"""Deepest nesting that copies may make, as of documents."""
_MOVED_ELEMENTS: Final = 100_000_000
"""List elements that one patch may move: 0.1 s. Upstream has no such limit."""
_OPERATIONS: Final = ("add", "remove", "replace", "move", "copy", "test")


def apply_json_patch(doc: JsonValue, operations: Sequence[Mapping[str, JsonValue]]) -> JsonValue:
    """Return `doc` after all `operations`. `doc` is not changed.

    >>> apply_json_patch({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}])
    {'a': [1, 2]}

    Raises:
        PatchError: an operation does not apply; `path` is its path.
        TooLargeError: the operations copy more than `Limits.patch_copied_bytes`, or move too many list elements.
    """
    result = copy.deepcopy(doc)
    budget = _Budget()
    for operation in operations:
        if operation.get("op") == "replace" and operation.get("path") == "":
            result = copy.deepcopy(operation.get("value"))
            if not isinstance(result, dict | list):
                raise PatchError("JSON patch: replace operation value must be object or array", path="")
        else:
            _apply(result, operation, budget)
    return result


def create_json_patch(old: JsonValue, new: JsonValue) -> list[JsonObject]:
    """Return operations that turn `old` into `new`: members one by one, lists by element, surplus elements last.

    >>> create_json_patch({"a": 1}, {"b": [2]})
    [{'op': 'remove', 'path': '/a'}, {'op': 'add', 'path': '/b', 'value': [2]}]
    """
    operations: list[JsonObject] = []
    _diff(old, new, (), operations)
    return operations


class _Budget:
    """What the operations of one patch may cost: each copy can double the document."""

    def __init__(self) -> None:
        self._copied = 0
        self._moved = 0

    def copy(self, value: JsonValue, path: str) -> JsonValue:
        """Return a copy, and count it. The message is that of json-patch's ``AccumulatedCopySizeError``."""
        encoded = msgspec.json.encode(value)
        self._copied += len(encoded)
        if self._copied > LIMITS.patch_copied_bytes:
            raise TooLargeError(
                "Request entity too large: Unable to complete the copy, the accumulated size increase of copy is"
                f" {self._copied}, exceeding the limit {LIMITS.patch_copied_bytes}"
            )
        if encoded.count(b"{") + encoded.count(b"[") > _MAX_DEPTH:
            _check_depth(value, path)
        return msgspec.json.decode(encoded)  # ten times as fast as deepcopy

    def move(self, elements: int) -> None:
        """Count the elements behind one that is inserted or removed."""
        self._moved += elements
        if self._moved > _MOVED_ELEMENTS:
            raise TooLargeError(f"Request entity too large: a JSON patch that moves {self._moved} list elements")


def _check_depth(value: JsonValue, path: str) -> None:
    """Check how deep a value is at its new place: copies into themselves nest a document. Raises `PatchError`."""
    depth, level = path.count("/"), [value]
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise PatchError("JSON patch: exceeded max depth", path=path)
        parts = (part for item in level for part in (item.values() if isinstance(item, dict) else item))
        level = [part for part in parts if isinstance(part, dict | list)]


def _apply(doc: JsonValue, operation: Mapping[str, JsonValue], budget: _Budget) -> None:
    """Carry out one operation in place. Raises `PatchError`."""
    name = operation.get("op")
    if name not in _OPERATIONS:
        raise PatchError(f"unexpected JSON patch operation {name!r}: use add, remove, replace, move, copy or test")
    source = _member(operation, "from") if name in ("move", "copy") else None
    path = _member(operation, "path")
    value = operation.get("value")
    if source is not None:
        container, key = _locate(doc, source)
        value = _get(container, key, source)
        if name == "move":
            _remove(container, key, source, budget)
        else:
            value = budget.copy(value, path)
    container, key = _locate(doc, path)
    match name:
        case "add":
            _add(container, key, copy.deepcopy(value), path, budget)
        case "move" | "copy":
            _add(container, key, value, path, budget)
        case "remove":
            _remove(container, key, path, budget)
        case "replace":
            position = key if isinstance(container, dict) else _index(key, len(container), path)
            container[position] = copy.deepcopy(value)
        case "test":
            if not deep_equal(_get(container, key, path), value):
                raise PatchError(f"JSON patch: testing value {path} failed", path=path)


def _member(operation: Mapping[str, JsonValue], member: str) -> str:
    path = operation.get(member)
    if not isinstance(path, str):
        raise PatchError(f"JSON patch operation {operation.get('op')!r} has no {member!r}")
    return path


def _locate(doc: JsonValue, path: str) -> tuple[JsonValue, str]:
    """Return the container of the value at `path`, and the last part of the path."""
    _, *parts = path.split("/")
    if not parts:
        raise _missing(path)
    for part in parts[:-1]:
        doc = _get(doc, unescape_part(part), path)
        if not isinstance(doc, dict | list):
            raise _missing(path)
    return doc, unescape_part(parts[-1])


def _missing(path: str) -> PatchError:
    return PatchError(f"JSON patch: the path {path!r} does not exist", path=path)


def _index(key: str, size: int, path: str) -> int:
    if not _INDEX.match(key):
        raise PatchError(f"JSON patch: {key!r} in {path!r} is not a list index", path=path)
    index = int(key)
    if not -size <= index < size:
        raise PatchError(f"JSON patch: index {key} in {path!r} is out of bounds", path=path)
    return index + size if index < 0 else index


def _get(container: JsonValue, key: str, path: str) -> JsonValue:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container), path)]


def _add(container: JsonValue, key: str, value: JsonValue, path: str, budget: _Budget) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        index = _index(key, len(container) + 1, path)
        budget.move(len(container) - index)
        container.insert(index, value)


def _remove(container: JsonValue, key: str, path: str, budget: _Budget) -> None:
    if isinstance(container, list):
        index = _index(key, len(container), path)
        budget.move(len(container) - index)
        del container[index]
    elif key in container:
        del container[key]
    else:
        raise _missing(path)


def _diff(old: JsonValue, new: JsonValue, at: tuple[str | int, ...], out: list[JsonObject]) -> None:
    """Append the operations that make `new` of `old`."""
    if deep_equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        out.extend({"op": "remove", "path": format_pointer((*at, key))} for key in old if key not in new)
        for key, value in new.items():
            if key in old:
                _diff(old[key], value, (*at, key), out)
            else:
                out.append({"op": "add", "path": format_pointer((*at, key)), "value": value})
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            _diff(before, after, (*at, index), out)
        surplus = reversed(range(len(new), len(old)))
        out.extend({"op": "remove", "path": format_pointer((*at, index))} for index in surplus)
        out.extend({"op": "add", "path": format_pointer((*at, "-")), "value": value} for value in new[len(old) :])
    else:
        out.append({"op": "replace", "path": format_pointer(at), "value": new})
