"""``format``: the verbs ``%s``, ``%d``, ``%f``, ``%e``, ``%b``, ``%o``, ``%x``, ``%X`` and ``%%``.

Upstream: github.com/google/cel-go/ext/formatting.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import count
from typing import Final

import msgspec

from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.conversions import to_string
from opsdk.cel.types import Type, Value
from opsdk.cel.values import Duration, Listed, Mapped, Timestamp, UInt, type_of
from opsdk.structured_merge.go_format import go_quote

_MOST_DIGITS: Final = 100_000
"""Largest precision of a format clause, in digits."""

CLAUSE: Final = re.compile(r"(?s)%(?:\.([0-9]*))?(.?)")


class Clause(msgspec.Struct, frozen=True):
    """A clause of a format string: ``%%``, or the format of the next argument."""

    verb: str
    precision: int


def read_clause(match: re.Match[str]) -> Clause:
    """Parse a match of `CLAUSE`.

    Raises:
        CelEvaluationError: the clause is invalid.
    """
    precision, verb = match[1], match[2]
    if not verb:
        raise CelEvaluationError("unexpected end of string" if precision is None else _PRECISION.format(_NO_END))
    if verb not in _VERBS and not (verb == "%" and precision is None):
        raise CelEvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    if precision is None:
        return Clause(verb, 6)
    if not precision:
        raise CelEvaluationError(_PRECISION.format(_NO_NUMBER))
    digits = int(precision[:9])
    if digits > _MOST_DIGITS:
        raise CelEvaluationError(f"could not parse formatting clause: precision {digits} exceeds {_MOST_DIGITS}")
    return Clause(verb, digits)


def format_string(form: str, args: Sequence[Value]) -> str:
    """Return the format string with its clauses replaced by the arguments.

    Raises:
        CelEvaluationError: a clause is unknown, or its argument has a wrong type.

    >>> format_string("%s is %d, %.2f, %x", ["a", 3, 2.5, 255])
    'a is 3, 2.50, ff'
    """
    places = count()

    def replace(match: re.Match[str]) -> str:
        clause = read_clause(match)
        if clause.verb == "%":
            return "%"
        place = next(places)
        if place >= len(args):
            raise CelEvaluationError(f"index {place} out of range")
        return _VERBS[clause.verb](args[place], clause.precision)

    return CLAUSE.sub(replace, form)


_PRECISION: Final = "could not parse formatting clause: error while parsing precision: {}"
_NO_END: Final = "could not find end of precision specifier"
_NO_NUMBER: Final = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'


_STRING_TYPES: Final = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
TAKES: Final = {
    "s": f"string clause can only be used on {_STRING_TYPES}",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
}
"""The error text of each verb for an argument of a wrong type."""


def refused(verb: str, actual: str) -> str:
    """Return the error of an argument of a wrong type."""
    return f"error during formatting: {TAKES[verb]}, was given {actual}"


def _refused(verb: str, value: Value) -> CelEvaluationError:
    return CelEvaluationError(refused(verb, type_of(value).runtime_name))


def _string(value: Value, _: int) -> str:
    if isinstance(value, (*Listed, *Mapped)):
        return _nested(value)
    return _plain(value)


def _plain(value: Value) -> str:
    match value:
        case None:
            return "null"
        case Type():
            return value.name
        case str() | bytes() | bool() | int() | float() | Timestamp() | Duration():
            return to_string(value)
    raise _refused("s", value)


def _nested(value: Value) -> str:
    """Return a value inside a list or map as ``%s`` of ``format`` shows it."""
    if isinstance(value, Listed):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, Mapped):
        entries = sorted(value.items(), key=lambda entry: _nested(entry[0]))
        return f"{{{', '.join(f'{_nested(key)}:{_nested(one)}' for key, one in entries)}}}"
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f'b"{to_string(value)}"'
        case Timestamp():
            return f'timestamp("{to_string(value)}")'
        case Duration():
            return f'duration("{to_string(value)}")'
        case float():
            return f"{value:.6f}" if math.isfinite(value) else f'"{to_string(value)}"'
    return _plain(value)


def _decimal(value: Value, _: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("d", value)
    return str(value)


def _real(value: Value, verb: str) -> float:
    """Return a number, or the string of NaN or an infinity."""
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if not isinstance(value, float):
        raise _refused(verb, value)
    return value or 0.0  # zero has no sign in the output


_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _fixed_point(value: Value, precision: int) -> str:
    number = _real(value, "f")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    return format(Decimal(number).quantize(Decimal(1).scaleb(-precision), ROUND_HALF_EVEN, _CONTEXT), ",f")


_CONTEXT: Final = Context(prec=2 * _MOST_DIGITS)


def _scientific(value: Value, _: int) -> str:
    """Format with six digits and a decimal exponent."""
    number = _real(value, "e")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    mantissa, exponent = f"{number:.6e}".split("e")
    return f"{mantissa}{_TIMES_TEN}{exponent.lstrip('+').translate(_RAISED)}"


_TIMES_TEN: Final = "\u00d710"
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _binary(value: Value, _: int) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, int):
        raise _refused("b", value)
    return format(value, "b")


def _octal(value: Value, _: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int | UInt):
        raise _refused("o", value)
    return format(value, "o")


def _hex(value: Value, _: int) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("x", value)
    return format(value, "x")


_VERBS: Final[dict[str, Callable[[Value, int], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed_point,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
}
