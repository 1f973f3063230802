"""``No such overload`` errors of operations on dynamic types.

Upstream: github.com/google/cel-go/common/types/err.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import TypeKind, Value
from opsdk.cel.values import kind_of, type_of

_NUMBERS: Final = frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE})
_TIMES: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.DURATION})
_ORDERED: Final = _NUMBERS | _TIMES | {TypeKind.BOOL, TypeKind.STRING, TypeKind.BYTES}
_TAKEN: Final = {
    "_+_": _NUMBERS | _TIMES | {TypeKind.STRING, TypeKind.BYTES, TypeKind.LIST},
    "_-_": _NUMBERS | _TIMES,
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset({TypeKind.INT, TypeKind.UINT}),
    "-_": frozenset({TypeKind.INT, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.BOOL}),
    "_<_": _ORDERED,
    "_<=_": _ORDERED,
    "_>_": _ORDERED,
    "_>=_": _ORDERED,
    "size": frozenset({TypeKind.STRING, TypeKind.BYTES, TypeKind.LIST, TypeKind.MAP}),
}
"""The type kinds of an operation's first operand. For other kinds, the error names the operation."""
_METHODICAL: Final = frozenset({TypeKind.STRING, TypeKind.DURATION, TypeKind.TIMESTAMP})
"""Kinds with their own methods. They are tried last, and the error does not name them."""
_TERSE: Final = frozenset({"contains", "startsWith", "endsWith", "matches"})


def mismatch(name: str, values: Sequence[Value]) -> CelEvaluationError:
    """Return the error of an operation without an overload for these values.

    >>> str(mismatch("_+_", [None, 1])), str(mismatch("_+_", ["a", 1])), str(mismatch("join", [1, "a"]))
    ('no such overload: _+_', 'no such overload', 'no such overload: join(int, string)')
    """
    taken = _TAKEN.get(name)
    if taken is not None and kind_of(values[0]) not in taken | _METHODICAL:
        return CelEvaluationError(f"no such overload: {name}")
    if taken is not None or name in _TERSE or name.startswith(("_", "@", "!")):
        return CelEvaluationError("no such overload")
    return CelEvaluationError(f"no such overload: {name}({', '.join(type_of(one).runtime_name for one in values)})")
