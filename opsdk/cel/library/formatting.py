"""``format``: ``%s``, ``%d``, ``%f``, ``%e``, ``%b``, ``%o``, ``%x``, ``%X`` and ``%%``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

from opsdk.cel.library.conversions import to_string
from opsdk.cel.types import Type
from opsdk.cel.values import Duration, Listed, Mapped, Timestamp, UInt, type_of
from opsdk.errors import CelEvaluationError

_MOST_DIGITS: Final = 1000
"""How many digits a number may be asked to show."""

_CLAUSE: Final = re.compile(r"(?s)%(?:\.([0-9]*))?(.?)")


def format_string(form: str, args: Sequence[Any]) -> str:
    """The text with its clauses replaced by the arguments.

    Raises:
        CelEvaluationError: a clause is unknown, or does not take its argument.

    >>> format_string("%s is %d, %.2f, %x", ["a", 3, 2.5, 255])
    'a is 3, 2.50, ff'
    """
    rest = iter(enumerate(args))

    def replace(clause: re.Match[str]) -> str:
        precision, verb = clause[1], clause[2]
        if verb == "%" and precision is None:
            return "%"
        if not verb:
            raise CelEvaluationError("unexpected end of string")
        show = _CLAUSES.get(verb)
        if show is None:
            raise CelEvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        return show(_argument(rest), _precision(precision))

    return _CLAUSE.sub(replace, form)


def _argument(rest: Iterator[tuple[int, Any]]) -> Any:
    for _, value in rest:
        return value
    raise CelEvaluationError("index 0 out of range")


def _precision(text: str | None) -> int:
    if text is None:
        return 6
    if not text:
        raise CelEvaluationError("could not parse formatting clause: error while parsing precision: empty precision")
    digits = int(text[:9])
    if digits > _MOST_DIGITS:
        raise CelEvaluationError(f"could not parse formatting clause: precision {digits} exceeds {_MOST_DIGITS}")
    return digits


def _refused(clause: str, wanted: str, value: Any) -> CelEvaluationError:
    found = type_of(value).runtime_name
    return CelEvaluationError(
        f"error during formatting: {clause} clause can only be used on {wanted}, was given {found}"
    )


def _string(value: Any, _: int) -> str:
    if isinstance(value, (*Listed, *Mapped)):
        return _nested(value)
    return _plain(value)


def _plain(value: Any) -> str:
    match value:
        case None:
            return "null"
        case Type():
            return value.name
        case str() | bytes() | bool() | int() | Timestamp() | Duration():
            return to_string(value)
        case float():
            return _special(value) or to_string(value)
    found = type_of(value).runtime_name
    text = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
    raise CelEvaluationError(f"error during formatting: string clause can only be used on {text}, was given {found}")


def _nested(value: Any) -> str:
    if isinstance(value, Listed):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, Mapped):
        entries = sorted(value.items(), key=lambda entry: _nested(entry[0]))
        return f"{{{', '.join(f'{_nested(key)}: {_nested(one)}' for key, one in entries)}}}"
    match value:
        case str():
            return f'"{value}"'
        case bytes():
            return f'b"{to_string(value)}"'
        case Timestamp():
            return f'timestamp("{to_string(value)}")'
        case Duration():
            return f'duration("{to_string(value)}")'
        case float():
            return _special(value) or f"{value:.6f}"
    return _plain(value)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return ""


def _decimal(value: Any, _: int) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return _special(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("decimal", "integers", value)
    return str(value)


def _float(value: Any, clause: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(clause, "doubles", value)
    return float(value)


def _fixed(value: Any, precision: int) -> str:
    number = _float(value, "fixed-point")
    if not math.isfinite(number):
        return _special(number)
    return format(Decimal(number).quantize(Decimal(1).scaleb(-precision), ROUND_HALF_EVEN, _CONTEXT), "f")


_CONTEXT: Final = Context(prec=2 * _MOST_DIGITS)


def _scientific(value: Any, precision: int) -> str:
    number = _float(value, "scientific")
    return format(number, f".{precision}e") if math.isfinite(number) else _special(number)


def _binary(value: Any, _: int) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, int):
        raise _refused("only integers and bools can be formatted as binary", "integers and bools", value)
    return format(value, "b")


def _octal(value: Any, _: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int | UInt):
        raise _refused("octal", "integers", value)
    return format(value, "o")


def _hex(value: Any, _: int) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused("hex", "integers, byte buffers, and strings", value)
    return format(value, "x")


_CLAUSES: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
}
