"""Paths of fields in queries, and the values of an object at a path. Pure.

Upstream: github.com/rancher/steve/pkg/stores/queryhelper/safesplit.go, pkg/stores/partition/listprocessor/processor.go
Deviates: the rest of a path after ``metadata.labels.`` is one label, also with dots. A path through a list has the
values of all its items, in filters and in summaries.
"""

from __future__ import annotations

import ipaddress
import math
import re
import struct
from collections.abc import Iterator

from opsdk.structured_merge.value import JsonObject, JsonValue

FieldPath = tuple[str, ...]
"""The names from the root of an object to a field."""

_Scalar = str | int | float | bool
Cell = _Scalar | tuple[_Scalar, ...] | None
"""The value of an object at a path: nothing, one value, or the values of a list."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MAPS = (("metadata", "labels"), ("metadata", "annotations"))
_LABEL = 2
_MAX_NAMES = 64
"""The most names in a path, and lists inside of lists that it goes through."""
# Digits of an index in a path.
_MAX_INDEX_DIGITS = 9
# Integers of 64 bits differ from the nearest float by less than this.
_RESIDUE = 1 << 15
_END = re.compile(r"[.\[]")


def parse_path(text: str) -> FieldPath:
    """Parse a path.

    Dots separate names; a name with other characters is in brackets. Empty names are errors.

    >>> parse_path("metadata.labels[app.kubernetes.io/name]"), parse_path("metadata.fields[3]")
    (('metadata', 'labels', 'app.kubernetes.io/name'), ('metadata', 'fields', '3'))

    Raises:
        ValueError: a name is empty, or a bracket is not closed. The message says where.
    """
    names: list[str] = []
    position = len("$.") if text.startswith("$.") else 0  # as the fields of columns have it
    while position < len(text) or not names:
        if len(names) >= _MAX_NAMES:
            raise ValueError(f"the path has more than {_MAX_NAMES} names")
        if tuple(names) in _MAPS and position < len(text) and text[position - 1] == ".":
            if "[" in text[position:] or "]" in text[position:]:
                raise ValueError(f"the label at {position} has a bracket: write metadata.labels[name]")
            names.append(text[position:])
            break
        bracketed = position < len(text) and text[position] == "["
        end = text.find("]", position) if bracketed else _end_of_name(text, position)
        if end < 0:
            raise ValueError(f"the bracket at {position} is not closed: add ']'")
        name = text[position + 1 : end] if bracketed else text[position:end]
        if not name:
            raise ValueError(f"the name at {position} is empty: write names separated by dots")
        names.append(name)
        position = end + 1 if bracketed else end
        if position < len(text) and text[position] == ".":
            position += 1
            if position == len(text):
                raise ValueError(f"the name at {position} is empty: remove the last dot")
    return tuple(names)


def _end_of_name(text: str, position: int) -> int:
    match = _END.search(text, position)
    return len(text) if match is None else match.start()


def format_path(path: FieldPath) -> str:
    """Return the text of a path, which `parse_path` reads.

    >>> format_path(("metadata", "labels", "example.org/a"))
    'metadata.labels[example.org/a]'
    """
    parts = [f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{name}]" for name in path]
    if len(path) > _LABEL + 1 and path[:_LABEL] in _MAPS:
        parts[_LABEL] = f"[{path[_LABEL]}]"  # after a dot, the rest of the path would be the label
    return "".join(parts).removeprefix(".")


def cell_at(tree: JsonObject, path: FieldPath) -> Cell:
    """Return the value of an object at a path.

    >>> cell_at({"spec": {"containers": [{"image": "a"}, {"image": "b"}]}}, ("spec", "containers", "image"))
    ('a', 'b')
    """
    values = tuple(_walk(tree, path, _MAX_NAMES))
    return values[0] if len(values) == 1 else values or None


def _walk(value: JsonValue, path: FieldPath, depth: int) -> Iterator[_Scalar]:
    if isinstance(value, list):
        if path and path[0].isdecimal():
            index = int(path[0]) if len(path[0]) <= _MAX_INDEX_DIGITS else len(value)
            yield from _walk(value[index], path[1:], depth) if index < len(value) else ()
            return
        for item in value if depth else ():
            yield from _walk(item, path, depth - 1)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _walk(value[path[0]], path[1:], depth)
    elif isinstance(value, (str, int, float)):
        yield value


def texts(cell: Cell) -> tuple[str, ...]:
    """Return the values of a cell as JSON shows them, without quotes.

    >>> texts(True), texts(("a", 2)), texts(None)
    (('true',), ('a', '2'), ())
    """
    if isinstance(cell, tuple):
        return tuple(_text(value) for value in cell)
    return () if cell is None else (_text(cell),)


def _text(value: _Scalar) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def order_text(cell: Cell) -> str:
    """Return a string that sorts as the cell should: absent first, then numbers by value, then strings.

    >>> sorted([10, 9, "b", None, "a", -1], key=order_text)
    [None, -1, 9, 10, 'a', 'b']
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return f"\1{cell}"
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return f"\0{number_key(cell).hex()}"
    return "\1" + "|".join(texts(cell))


def order_address(cell: Cell) -> str:
    """Return a string that sorts IP addresses by value, IPv4 first. Other values come before all addresses.

    >>> sorted(["10.0.0.10", "10.0.0.9", "x"], key=order_address)
    ['x', '10.0.0.9', '10.0.0.10']
    """
    try:
        address = ipaddress.ip_address(texts(cell)[0])
    except (ValueError, IndexError):
        return ""
    return f"{address.version}{int(address):039d}"


def number_key(number: float) -> bytes:
    """Return ten bytes that sort as numbers do. Integers of more than 64 bits may be equal to others.

    >>> sorted([2.5, -1, 10, 1e-9], key=number_key)
    [-1, 1e-09, 2.5, 10]
    """
    # The nearest float orders all numbers but neighbouring integers beyond 53 bits; the residue orders these.
    nearest, residue = _nearest_float(number)
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest))
    # Flip the sign of positive numbers, and all bits of negative ones, whose magnitude counts downwards.
    ordered = bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63)
    return struct.pack(">QH", ordered, residue + _RESIDUE)


def _nearest_float(number: float) -> tuple[float, int]:
    try:
        # Adding zero turns -0.0, which equals 0.0, into 0.0.
        nearest = float(number) + 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf, 0
    residue = number - int(nearest) if isinstance(number, int) else 0
    return nearest, residue if -_RESIDUE <= residue < _RESIDUE else 0
