"""The standard library: operators, conversions, strings and timestamp accessors.

Upstream: github.com/google/cel-go/common/stdlib/standard.go.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opsdk.cel import types
from opsdk.cel.declarations import (
    MOST,
    ONE,
    TRAVERSAL,
    CallEstimate,
    Library,
    Operand,
    Overload,
    Range,
    Sizes,
    function,
    method,
    scaled,
)
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library import conversions as convert
from opsdk.cel.library.costs import estimate_regex, estimate_walk, regex_cost, size_of, walk
from opsdk.cel.regex import compile_regex
from opsdk.cel.times import checked_timestamp, in_zone
from opsdk.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    TypeKind,
    Value,
    list_of,
    map_of,
    param,
)
from opsdk.cel.values import Duration, Timestamp, UInt, compare, equal, size, type_of
from opsdk.errors import UsageError

_A: Final = param("A")
_B: Final = param("B")
_LIST: Final = list_of(_A)
_MAP: Final = map_of(_A, _B)


# ------------------------------------------------------------------ arithmetic
def _int(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise CelEvaluationError("integer overflow")
    return value


def _uint(value: int) -> UInt:
    if not 0 <= value < 2**64:
        raise CelEvaluationError("unsigned integer overflow")
    return UInt(value)


def _duration(value: int) -> Duration:
    if not -(2**63) <= value < 2**63:
        raise CelEvaluationError("integer overflow")
    return Duration(value)


def _quotient(left: int, right: int) -> int:
    """Divide and truncate."""
    if right == 0:
        raise CelEvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend."""
    if right == 0:
        raise CelEvaluationError("modulus by zero")
    return left - right * _quotient(left, right)


def _divide(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _arithmetic(
    name: str, whole: Callable[[int, int], int], real: Callable[[float, float], float] | None
) -> list[Overload]:
    overloads = [
        function(f"{name}_int64", (INT, INT), INT, lambda a, b: _int(whole(a, b))),
        function(f"{name}_uint64", (UINT, UINT), UINT, lambda a, b: _uint(whole(int(a), int(b)))),
    ]
    if real is not None:
        overloads.append(function(f"{name}_double", (DOUBLE, DOUBLE), DOUBLE, real))
    return overloads


def _copied(args: Sequence[Value], _: Value) -> int:
    return scaled(size_of(args[0]) + size_of(args[1]), TRAVERSAL)


def _concatenated(left: Sequence[Value], right: Sequence[Value]) -> Sequence[Value]:
    plus = getattr(left, "plus", None)
    if plus is not None:
        result: Sequence[Value] = plus(right)
        return result
    return [*left, *right]


_PLUS: Final = [
    function("add_bytes", (BYTES, BYTES), BYTES, lambda a, b: a + b, cost=_copied),
    function("add_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a + b),
    function(
        "add_duration_duration", (DURATION, DURATION), DURATION, lambda a, b: _duration(a.nanoseconds + b.nanoseconds)
    ),
    function(
        "add_duration_timestamp",
        (DURATION, TIMESTAMP),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.nanoseconds + b.nanoseconds, b.offset),
    ),
    function(
        "add_timestamp_duration",
        (TIMESTAMP, DURATION),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.nanoseconds + b.nanoseconds, a.offset),
    ),
    function("add_int64", (INT, INT), INT, lambda a, b: _int(a + b)),
    function("add_list", (_LIST, _LIST), _LIST, _concatenated),
    function("add_string", (STRING, STRING), STRING, lambda a, b: a + b, cost=_copied),
    function("add_uint64", (UINT, UINT), UINT, lambda a, b: _uint(int(a) + int(b))),
]
_MINUS: Final = [
    *_arithmetic("subtract", lambda a, b: a - b, lambda a, b: a - b),
    function(
        "subtract_duration_duration",
        (DURATION, DURATION),
        DURATION,
        lambda a, b: _duration(a.nanoseconds - b.nanoseconds),
    ),
    function(
        "subtract_timestamp_duration",
        (TIMESTAMP, DURATION),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.nanoseconds - b.nanoseconds, a.offset),
    ),
    function(
        "subtract_timestamp_timestamp",
        (TIMESTAMP, TIMESTAMP),
        DURATION,
        lambda a, b: _duration(a.nanoseconds - b.nanoseconds),
    ),
]


# ------------------------------------------------------------------ equality and order
def _smaller(args: Sequence[Value], _: Value) -> int:
    smallest = args[0]
    if type_of(smallest).kind is TypeKind.OPAQUE and not types.is_optional(type_of(smallest)):
        return 1
    return scaled(min(size_of(smallest), size_of(args[1])), TRAVERSAL)


def _estimate_smaller(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    first_size, right = operands
    if (
        first_size.type == right.type
        and first_size.type.kind is TypeKind.OPAQUE
        and not types.is_optional(first_size.type)
    ):
        return CallEstimate(ONE)
    most = min(sizes.size(first_size).most, sizes.size(right).most)
    return CallEstimate(Range(1 if most else 0, most).scaled(TRAVERSAL))


_ORDERED: Final = {
    "bool": BOOL,
    "int64": INT,
    "uint64": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
}
_NUMBERS: Final = ("int64", "uint64", "double")


def _order(name: str, holds: Callable[[int], bool]) -> list[Overload]:
    """Return the overloads of a comparison, between numbers of different types too."""

    def test(left: Value, right: Value) -> bool:
        return holds(compare(left, right))

    def same(key: str, type_: Type) -> Overload:
        texts = {"cost": _smaller, "estimate": _estimate_smaller} if key in ("string", "bytes") else {}
        return function(f"{name}_{key}", (type_, type_), BOOL, test, **texts)

    mixed = [
        function(f"{name}_{one}_{other}", (_ORDERED[one], _ORDERED[other]), BOOL, test)
        for one in _NUMBERS
        for other in _NUMBERS
        if one != other
    ]
    return [*(same(key, type_) for key, type_ in _ORDERED.items()), *mixed]


def _equality(id_: str, test: Callable[[Value, Value], bool]) -> list[Overload]:
    return [function(id_, (_A, _A), BOOL, test, cost=_smaller, estimate=_estimate_smaller)]


# ------------------------------------------------------------------ containers
def _unreachable(*_: Value) -> Value:
    raise CelEvaluationError("no such overload")


_OPTIONAL: Final = types.optional_of
_CONTAINERS: Final[dict[str, list[Overload]]] = {
    "_[_]": [
        function("index_list", (_LIST, INT), _A, _unreachable),
        function("index_map", (_MAP, _A), _B, _unreachable),
        function("optional_list_index_int", (_OPTIONAL(_LIST), INT), _OPTIONAL(_A), _unreachable),
        function("optional_map_index_value", (_OPTIONAL(_MAP), _A), _OPTIONAL(_B), _unreachable),
    ],
    "_[?_]": [
        function("list_optindex_optional_int", (_LIST, INT), _OPTIONAL(_A), _unreachable),
        function("optional_list_optindex_optional_int", (_OPTIONAL(_LIST), INT), _OPTIONAL(_A), _unreachable),
        function("map_optindex_optional_value", (_MAP, _A), _OPTIONAL(_B), _unreachable),
        function("optional_map_optindex_optional_value", (_OPTIONAL(_MAP), _A), _OPTIONAL(_B), _unreachable),
    ],
    "@in": [
        function(
            "in_list",
            (_A, _LIST),
            BOOL,
            _unreachable,
            estimate=lambda sizes, operands: CallEstimate(sizes.size(operands[1])),
        ),
        function("in_map", (_A, _MAP), BOOL, _unreachable),
    ],
}


def _size(value: Value) -> int:
    length = size(value)
    if length is None:
        raise CelEvaluationError("no such overload")
    return length


def _sizes(make: Callable[..., Overload], prefix: str) -> list[Overload]:
    sized = {"string": STRING, "bytes": BYTES, "list": _LIST, "map": _MAP}
    return [make(prefix.format(name), (type_,), INT, _size) for name, type_ in sized.items()]


# ------------------------------------------------------------------ strings
def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_regex(pattern).search(text) is not None
    except UsageError as error:
        raise CelEvaluationError(str(error)) from error


_TWO_STRINGS: Final = (STRING, STRING)
_MATCHING: Final = {
    "cost": lambda args, _: regex_cost(len(args[0]), len(args[1])),
    "estimate": lambda sizes, operands: CallEstimate(estimate_regex(sizes, operands)),
}
# As upstream, the actual cost depends on the searched string, and the estimate on the prefix or suffix.
_ENDS: Final = {"cost": walk(0), "estimate": estimate_walk(1)}
_STRINGS: Final[dict[str, list[Overload]]] = {
    "contains": [
        method(
            "contains_string",
            _TWO_STRINGS,
            BOOL,
            lambda a, b: b in a,
            cost=lambda args, _: scaled(len(args[0]), TRAVERSAL) * scaled(len(args[1]), TRAVERSAL),
            estimate=lambda sizes, operands: CallEstimate(
                sizes.size(operands[0]).scaled(TRAVERSAL) * sizes.size(operands[1]).scaled(TRAVERSAL)
            ),
        )
    ],
    "startsWith": [method("starts_with_string", _TWO_STRINGS, BOOL, str.startswith, **_ENDS)],
    "endsWith": [method("ends_with_string", _TWO_STRINGS, BOOL, str.endswith, **_ENDS)],
    "matches": [
        function("matches", _TWO_STRINGS, BOOL, _matches, **_MATCHING),
        method("matches_string", _TWO_STRINGS, BOOL, _matches, **_MATCHING),
    ],
}


# ------------------------------------------------------------------ conversions
def _bytes_size(factor: tuple[int, int]) -> Callable[[Sizes, Sequence[Operand]], CallEstimate]:
    less, more = factor

    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        operand_size = sizes.size(operands[0])
        return CallEstimate(
            operand_size.scaled(TRAVERSAL), Range(operand_size.least // less, min(operand_size.most * more, MOST))
        )

    return estimate


def _from(name: str, result: Type, sources: Mapping[str, tuple[Type, Callable[[Value], Value]]]) -> list[Overload]:
    return [function(f"{source}_to_{name}", (type_,), result, call) for source, (type_, call) in sources.items()]


def _same(value: Value) -> Value:
    return value


_TO_BYTES: Final = {"cost": walk(0), "estimate": _bytes_size((1, 4))}
_TO_STRING: Final = {"cost": walk(0), "estimate": _bytes_size((4, 1))}
_CONVERSIONS: Final[dict[str, list[Overload]]] = {
    "bool": _from("bool", BOOL, {"bool": (BOOL, _same), "string": (STRING, convert.to_bool)}),
    "bytes": [
        function("bytes_to_bytes", (BYTES,), BYTES, _same),
        function("string_to_bytes", (STRING,), BYTES, str.encode, **_TO_BYTES),
    ],
    "double": _from(
        "double",
        DOUBLE,
        {
            "double": (DOUBLE, _same),
            "int64": (INT, float),
            "string": (STRING, convert.to_double),
            "uint64": (UINT, float),
        },
    ),
    "duration": _from(
        "duration",
        DURATION,
        {
            "duration": (DURATION, _same),
            "string": (STRING, convert.to_duration),
        },
    ),
    "dyn": [function("to_dyn", (_A,), DYN, _same)],
    "int": _from(
        "int64",
        INT,
        {
            "int64": (INT, _same),
            "double": (DOUBLE, convert.double_to_int),
            "duration": (DURATION, lambda value: value.nanoseconds),
            "string": (STRING, convert.to_int),
            "timestamp": (TIMESTAMP, lambda value: value.nanoseconds // 10**9),
            "uint64": (UINT, lambda value: _int(int(value))),
        },
    ),
    "string": [
        *_from(
            "string",
            STRING,
            {
                "string": (STRING, _same),
                "bool": (BOOL, convert.to_string),
                "double": (DOUBLE, convert.to_string),
                "duration": (DURATION, convert.to_string),
                "int64": (INT, convert.to_string),
                "timestamp": (TIMESTAMP, convert.to_string),
                "uint64": (UINT, convert.to_string),
            },
        ),
        function("bytes_to_string", (BYTES,), STRING, convert.to_string, **_TO_STRING),
    ],
    "timestamp": _from(
        "timestamp",
        TIMESTAMP,
        {
            "timestamp": (TIMESTAMP, _same),
            "int64": (INT, lambda value: checked_timestamp(value * 10**9)),
            "string": (STRING, convert.to_timestamp),
        },
    ),
    "type": [function("type", (_A,), types.type_of(_A), type_of)],
    "uint": _from(
        "uint64",
        UINT,
        {
            "uint64": (UINT, _same),
            "double": (DOUBLE, convert.double_to_uint),
            "int64": (INT, _uint),
            "string": (STRING, convert.to_uint),
        },
    ),
}


# ------------------------------------------------------------------ parts of dates and durations
_PARTS: Final[dict[str, Callable[[dt.datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_UNITS: Final = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9, "getMilliseconds": 10**6}


def _part(name: str) -> list[Overload]:
    part = _PARTS[name]

    def read(timestamp: Timestamp, zone: str = "UTC") -> int:
        return part(in_zone(timestamp, zone))

    overloads = [
        method(f"timestamp_{name}", (TIMESTAMP,), INT, read),
        method(f"timestamp_{name}_with_tz", (TIMESTAMP, STRING), INT, read),
    ]
    if name in _UNITS:
        per = _UNITS[name]
        overloads.append(method(f"duration_{name}", (DURATION,), INT, lambda value: _quotient(value.nanoseconds, per)))
    return overloads


def _logic(id_: str) -> list[Overload]:
    return [function(id_, (BOOL, BOOL), BOOL, _unreachable)]


STANDARD_LIBRARY: Final = Library(
    functions={
        "_?_:_": [function("conditional", (BOOL, _A, _A), _A, _unreachable)],
        "_&&_": _logic("logical_and"),
        "_||_": _logic("logical_or"),
        "!_": [function("logical_not", (BOOL,), BOOL, lambda value: not value)],
        "@not_strictly_false": [function("not_strictly_false", (BOOL,), BOOL, _unreachable)],
        "_==_": _equality("equals", equal),
        "_!=_": _equality("not_equals", lambda a, b: not equal(a, b)),
        "_<_": _order("less", lambda sign: sign < 0),
        "_<=_": _order("less_equals", lambda sign: sign <= 0),
        "_>_": _order("greater", lambda sign: sign > 0),
        "_>=_": _order("greater_equals", lambda sign: sign >= 0),
        "_+_": _PLUS,
        "_-_": _MINUS,
        "_*_": _arithmetic("multiply", lambda a, b: a * b, operator.mul),
        "_/_": _arithmetic("divide", _quotient, _divide),
        "_%_": _arithmetic("modulo", _remainder, None),
        "-_": [
            function("negate_int64", (INT,), INT, lambda value: _int(-value)),
            function("negate_double", (DOUBLE,), DOUBLE, lambda value: -value),
        ],
        "size": [*_sizes(function, "size_{}"), *_sizes(method, "{}_size")],
        **_CONTAINERS,
        **_STRINGS,
        **_CONVERSIONS,
        **{name: _part(name) for name in _PARTS},
    },
    types={
        "bool": BOOL,
        "bytes": BYTES,
        "double": DOUBLE,
        "int": INT,
        "list": types.LIST,
        "map": types.MAP,
        "null_type": NULL,
        "string": STRING,
        "type": types.TYPE,
        "uint": UINT,
        "google.protobuf.Duration": DURATION,
        "google.protobuf.Timestamp": TIMESTAMP,
    },
)
"""The standard library."""
MIXED_COMPARISONS: Final = Library(
    functions={
        name: [each for each in STANDARD_LIBRARY.functions[name] if len(set(each.params)) > 1]
        for name in ("_<_", "_<=_", "_>_", "_>=_")
    }
)
"""The part of the standard library that compares numbers of different types."""
