"""Quantities in the one form in which the server writes them. Pure."""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache

from opsdk.errors import DecodeError

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {s: Decimal(1000) ** p for p, s in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), start=-3)}
_MOST = Decimal((1 << 63) - 1)
_SUFFIX = "unable to parse quantity's suffix"
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)  # objects of one cluster ask for the same few amounts
def canonical(text: str) -> str:
    """The shortest whole number with the largest suffix of the same family; `DecodeError` for no quantity.

    >>> canonical("0.5"), canonical("1024Mi"), canonical("1000m"), canonical("1.5Gi"), canonical("100")
    ('500m', '1Gi', '1', '1536Mi', '100')
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise DecodeError(_WRONG)
    # Enough digits for the largest suffix beside a billionth.
    with localcontext(Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        return _written(match)


def _written(match: re.Match[str]) -> str:
    sign, number, exponent, suffix = match.groups()
    if exponent and (len(exponent) > 20 or abs(int(exponent[1:])) >= 1 << 31):
        raise DecodeError(_SUFFIX)
    value = Decimal(number + (exponent or ""))
    if suffix:
        value *= _BINARY.get(suffix) or _DECIMAL[suffix]
    digits, power = number.replace(".", "").lstrip("0"), int(value.as_tuple().exponent)
    if value > _MOST and (len(digits) > 18 or suffix in _BINARY or power < -9):
        value = _MOST  # what fits into no machine word is cut off
    elif power < -9:
        # Nothing smaller than a billionth is kept.
        value = value.quantize(_DECIMAL["n"], rounding=ROUND_UP)
    shown = _exponent(value) if exponent else _suffixed(value, binary=bool(suffix) and suffix in _BINARY)
    return f"-{shown}" if sign == "-" and value else shown


def _suffixed(value: Decimal, *, binary: bool) -> str:
    if not value:
        return "0"
    whole = binary and value >= 1024 and not value % 1
    suffixes = {"": Decimal(1), **_BINARY} if whole else _DECIMAL
    suffix, unit = max(((s, u) for s, u in suffixes.items() if not value % u), key=lambda pair: pair[1])
    return f"{int(value / unit)}{suffix}"


def _exponent(value: Decimal) -> str:
    if not value:
        return "0"
    _, digits, power = value.normalize().as_tuple()
    power = int(power)
    # Powers go by thousands.
    written = "".join(map(str, digits)) + "0" * (power % 3)
    power -= power % 3
    return f"{written}e{power}" if power else written
