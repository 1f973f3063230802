"""Paths of fields in queries, and the values of an object at a path. Pure.

Upstream: github.com/rancher/steve/pkg/stores/partition/listprocessor/processor.go
Deviates: a path through a list has the values of all its items.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from opsdk.structured_merge.value import JsonObject, JsonValue

FieldPath = tuple[str, ...]
"""The names from the root of an object to a field."""

_Scalar = str | int | float | bool
Cell = _Scalar | tuple[_Scalar, ...] | None
"""The value of an object at a path: nothing, one value, or the values of a list."""

# Lists inside of lists that a path goes through.
_MAX_DEPTH = 64
# Digits of an index in a path.
_MAX_INDEX_DIGITS = 9
# Integers of 64 bits differ from the nearest float by less than this.
_RESIDUE = 1 << 15


def cell_at(tree: JsonObject, path: FieldPath) -> Cell:
    """Return the value of an object at a path.

    >>> cell_at({"spec": {"containers": [{"image": "a"}, {"image": "b"}]}}, ("spec", "containers", "image"))
    ('a', 'b')
    """
    values = tuple(_walk(tree, path, _MAX_DEPTH))
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
        return f"\0{_number_key(cell).hex()}"
    return "\1" + "|".join(texts(cell))


def _number_key(number: float) -> bytes:
    """Return ten bytes that sort as numbers do. Integers of more than 64 bits may be equal to others."""
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
