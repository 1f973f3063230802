"""Validators that run after the type check: constant arguments and homogeneous aggregate literals.

Upstream: github.com/google/cel-go/cel/validator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from opsdk.cel.checker import Checked
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.formatting import CLAUSE, read_clause, refused
from opsdk.cel.regex import compile_regex
from opsdk.cel.source import Issue
from opsdk.cel.syntax import CallNode, Comprehension, Expr, ListOf, Literal, MapOf, Select, StructNode
from opsdk.cel.times import is_moment, parse_duration, parse_timestamp
from opsdk.cel.types import Type, TypeKind, Value
from opsdk.errors import UsageError


def _is_regex(value: Value) -> bool:
    try:
        compile_regex(value)
    except UsageError:
        return False
    return True


def _is_moment(value: Value) -> bool:
    if isinstance(value, str):
        return parse_timestamp(value) is not None
    return isinstance(value, bool) or not isinstance(value, int) or is_moment(value)


_ARGUMENTS: Final[dict[str, Callable[[Value], bool]]] = {
    "duration": lambda value: not isinstance(value, str) or parse_duration(value) is not None,
    "timestamp": _is_moment,
    "matches": lambda value: not isinstance(value, str) or _is_regex(value),
}


def check_literals(tree: Expr, checked: Checked) -> Iterator[Issue]:
    """Yield invalid constant arguments, and list and map literals with elements of different types."""
    for node, formatted in _walk(tree, formatted=False):
        match node:
            case CallNode(function="format", target=Literal(value=str(form)), args=(ListOf() as given,)):
                yield from _format(node, form, given, checked)
            case CallNode(args=(Literal(value=value, at=at), *_)):
                valid = _ARGUMENTS.get(node.function)
                if valid is not None and not valid(value):
                    yield Issue(at, f"invalid {node.function} argument")
            case ListOf() if not formatted:
                yield from _list(node, checked)
            case MapOf() if not formatted:
                yield from _map(node, checked)


def _walk(node: Expr, *, formatted: bool) -> Iterator[tuple[Expr, bool]]:
    """Yield all nodes, and whether they are arguments of ``format``, whose list may be heterogeneous."""
    yield node, formatted
    inside = (isinstance(node, CallNode) and node.function == "format") or (
        formatted and isinstance(node, ListOf | MapOf)
    )
    for child in children(node):
        yield from _walk(child, formatted=inside)


def children(node: Expr) -> tuple[Expr, ...]:
    """Return the child nodes."""
    match node:
        case Select():
            return (node.operand,)
        case CallNode():
            return node.args if node.target is None else (node.target, *node.args)
        case ListOf():
            return node.elements
        case MapOf():
            return tuple(one for entry in node.entries for one in (entry.key, entry.value) if not isinstance(one, str))
        case StructNode():
            return tuple(entry.value for entry in node.entries)
        case Comprehension():
            return (node.range, node.init, node.condition, node.step, node.result)
    return ()


def _format(node: CallNode, form: str, given: ListOf, checked: Checked) -> Iterator[Issue]:
    """Yield the first error of a format string and its arguments."""
    places = count()
    try:
        clauses = [read_clause(clause_match) for clause_match in CLAUSE.finditer(form)]
    except CelEvaluationError as error:
        yield Issue(node.at, str(error))
        return
    for clause in clauses:
        if clause.verb == "%":
            continue
        place = next(places)
        if place >= len(given.elements):
            yield Issue(node.at, f"index {place} out of range")
            return
        for element in _shown(given.elements[place], clause.verb):
            type_ = checked.types[element.id]
            if type_.kind not in _FORMATTED[clause.verb] | _ANYTHING:
                yield Issue(element.at, refused(clause.verb, type_.runtime_name))
                return
    expected, got = next(places), len(given.elements)
    if got > expected:
        yield Issue(node.at, f"too many arguments supplied to string.format (expected {expected}, got {got})")


def _shown(node: Expr, verb: str) -> Iterator[Expr]:
    """Yield the formatted nodes; for ``%s`` also the elements of list and map literals."""
    yield node
    if verb == "s" and isinstance(node, ListOf | MapOf):
        for child in children(node):
            yield from _shown(child, verb)


_ANYTHING: Final = frozenset({TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM})
_WHOLE: Final = frozenset({TypeKind.INT, TypeKind.UINT})
_REAL: Final = frozenset({TypeKind.DOUBLE, TypeKind.STRING})
_BYTES: Final = _WHOLE | {TypeKind.BYTES, TypeKind.STRING}
_FORMATTED: Final = {
    "s": _BYTES
    | {
        TypeKind.BOOL,
        TypeKind.DOUBLE,
        TypeKind.DURATION,
        TypeKind.LIST,
        TypeKind.MAP,
        TypeKind.NULL,
        TypeKind.TIMESTAMP,
        TypeKind.TYPE,
    },
    "d": _WHOLE,
    "f": _REAL,
    "e": _REAL,
    "b": _WHOLE | {TypeKind.BOOL},
    "o": _WHOLE,
    "x": _BYTES,
    "X": _BYTES,
}
"""The argument types of each verb. A string is accepted for numbers: NaN and infinities are formatted as text."""


def _list(node: ListOf, checked: Checked) -> Iterator[Issue]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        list_type = checked.types[element.id]
        if index in node.optional and list_type.params:
            list_type = list_type.params[0]
        if first is None:
            first = list_type
        elif not _same(first, list_type):
            yield _mismatch(element.at, first, list_type)
            return


def _map(node: MapOf, checked: Checked) -> Iterator[Issue]:
    """Yield an issue for each key and value of a map literal whose type differs from the first one's."""
    keys: Type | None = None
    values: Type | None = None
    for entry in node.entries:
        assert not isinstance(entry.key, str)
        key, value = checked.types[entry.key.id], checked.types[entry.value.id]
        if entry.optional and value.params:
            value = value.params[0]
        if keys is None or values is None:
            keys, values = key, value
            continue
        if not _same(keys, key):
            yield _mismatch(entry.key.at, keys, key)
        if not _same(values, value):
            yield _mismatch(entry.value.at, values, value)


def _same(left: Type, right: Type) -> bool:
    """Report whether two types are equal, ignoring the names of type parameters."""
    if left.kind is not right.kind or len(left.params) != len(right.params):
        return False
    if left.kind is TypeKind.TYPE:
        return True
    if left.kind is not TypeKind.PARAM and left.name != right.name:
        return False
    return all(map(_same, left.params, right.params))


def _mismatch(at: int, expected: Type, actual: Type) -> Issue:
    return Issue(at, f"expected type '{expected}' but found '{actual}'")
