"""JSON patch (RFC 6902) as kube-apiserver applies it.

The server's library departs from the RFC, and clients have come to rely on it, so a conforming library does not fit:
negative indices count from the end, ``replace`` and ``copy`` accept a member that is missing in an object, ``test``
takes a missing member for null, everything before the first slash of a path is ignored, and the document as a whole
cannot be replaced.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.paths import format_pointer, unescape_part
from opsdk.structured_merge.value import JsonObject

_INDEX: Final = re.compile(r"[+-]?[0-9]+\Z")


def apply_json_patch(doc: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """`doc` after all `operations`, or an error and nothing.

    >>> apply_json_patch({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}])
    {'a': [1, 2]}

    Raises:
        PatchError: an operation does not fit; `path` is its path.
    """
    result = copy.deepcopy(doc)
    for operation in operations:
        _apply(result, operation)
    return result


def create_json_patch(old: Any, new: Any) -> list[JsonObject]:
    """Operations that make `new` of `old`: object members one by one, lists element by element, surplus at the end.

    >>> create_json_patch({"a": 1}, {"b": [2]})
    [{'op': 'remove', 'path': '/a'}, {'op': 'add', 'path': '/b', 'value': [2]}]
    """
    operations: list[JsonObject] = []
    _diff(old, new, (), operations)
    return operations


def _apply(doc: Any, operation: Mapping[str, Any]) -> None:
    name = operation.get("op")
    action = _ACTIONS.get(name) if isinstance(name, str) else None
    if action is None:
        raise PatchError(f"unexpected JSON patch operation {name!r}: use add, remove, replace, move, copy or test")
    action(doc, operation)


def _member(operation: Mapping[str, Any], member: str) -> str:
    path = operation.get(member)
    if not isinstance(path, str):
        raise PatchError(f"JSON patch operation {operation.get('op')!r} has no {member!r}")
    return path


def _locate(doc: Any, path: str) -> tuple[Any, str]:
    """The container that `path` leads into, and the last part of it."""
    _, *parts = path.split("/")
    if not parts:
        raise _missing(path)
    for part in parts[:-1]:
        doc = _get(doc, unescape_part(part), path)
        if not isinstance(doc, dict | list):
            raise _missing(path)
    return doc, unescape_part(parts[-1])


def _missing(path: str) -> PatchError:
    return PatchError(f"JSON patch: nothing at {path!r}", path=path)


def _index(key: str, size: int, path: str) -> int:
    if not _INDEX.match(key):
        raise PatchError(f"JSON patch: {key!r} in {path!r} is no list index", path=path)
    index = int(key)
    if not -size <= index < size:
        raise PatchError(f"JSON patch: index {key} in {path!r} is out of bounds", path=path)
    return index + size if index < 0 else index


def _get(container: Any, key: str, path: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container), path)]


def _add(container: Any, key: str, value: Any, path: str) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1, path), value)


def _remove(container: Any, key: str, path: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container), path)]
    elif key in container:
        del container[key]
    else:
        raise _missing(path)


def _op_add(doc: Any, operation: Mapping[str, Any]) -> None:
    path = _member(operation, "path")
    container, key = _locate(doc, path)
    _add(container, key, copy.deepcopy(operation.get("value")), path)


def _op_remove(doc: Any, operation: Mapping[str, Any]) -> None:
    path = _member(operation, "path")
    container, key = _locate(doc, path)
    _remove(container, key, path)


def _op_replace(doc: Any, operation: Mapping[str, Any]) -> None:
    path = _member(operation, "path")
    container, key = _locate(doc, path)
    value = copy.deepcopy(operation.get("value"))
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container), path)] = value


def _op_move(doc: Any, operation: Mapping[str, Any]) -> None:
    source, path = _member(operation, "from"), _member(operation, "path")
    container, key = _locate(doc, source)
    value = _get(container, key, source)
    _remove(container, key, source)
    container, key = _locate(doc, path)
    _add(container, key, value, path)


def _op_copy(doc: Any, operation: Mapping[str, Any]) -> None:
    source, path = _member(operation, "from"), _member(operation, "path")
    container, key = _locate(doc, source)
    value = copy.deepcopy(_get(container, key, source))
    container, key = _locate(doc, path)
    _add(container, key, value, path)


def _op_test(doc: Any, operation: Mapping[str, Any]) -> None:
    path = _member(operation, "path")
    container, key = _locate(doc, path)
    if not deep_equal(_get(container, key, path), operation.get("value")):
        raise PatchError(f"JSON patch: testing value {path} failed", path=path)


_ACTIONS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], None]]] = {
    "add": _op_add,
    "remove": _op_remove,
    "replace": _op_replace,
    "move": _op_move,
    "copy": _op_copy,
    "test": _op_test,
}


def _diff(old: Any, new: Any, at: tuple[str | int, ...], out: list[JsonObject]) -> None:
    if deep_equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _diff_objects(old, new, at, out)
    elif isinstance(old, list) and isinstance(new, list):
        _diff_lists(old, new, at, out)
    else:
        out.append({"op": "replace", "path": format_pointer(at), "value": new})


def _diff_objects(old: JsonObject, new: JsonObject, at: tuple[str | int, ...], out: list[JsonObject]) -> None:
    out.extend({"op": "remove", "path": format_pointer((*at, key))} for key in old if key not in new)
    for key, value in new.items():
        if key in old:
            _diff(old[key], value, (*at, key), out)
        else:
            out.append({"op": "add", "path": format_pointer((*at, key)), "value": value})


def _diff_lists(old: list[Any], new: list[Any], at: tuple[str | int, ...], out: list[JsonObject]) -> None:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        _diff(before, after, (*at, index), out)
    surplus = reversed(range(len(new), len(old)))
    out.extend({"op": "remove", "path": format_pointer((*at, index))} for index in surplus)
    out.extend({"op": "add", "path": format_pointer((*at, "-")), "value": value} for value in new[len(old) :])
