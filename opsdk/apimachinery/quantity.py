"""Resource quantities: ``100m``, ``1Gi``, ``2e3``.

Upstream: k8s.io/apimachinery/pkg/api/resource/quantity.go (v1.36)
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import total_ordering

_FORM = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?"
)
# Exact arithmetic, or an error: the server accepts far less than a thousand digits.
_EXACT = Context(prec=1000, Emax=1000, Emin=-1000, traps=[Inexact, InvalidOperation, Overflow])
_SUFFIXES: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL = ("E", "P", "T", "G", "M", "k")
_FRACTIONS = ("m", "u", "n")
_EXPONENTS = {"E": "e18", "P": "e15", "T": "e12", "G": "e9", "M": "e6", "k": "e3", "m": "e-3", "u": "e-6", "n": "e-9"}


@total_ordering
class Quantity:
    """An exact quantity that keeps its original text.

    Equality compares values: ``Quantity("1") == Quantity("1000m")``. ``str()`` returns the original text. Arithmetic
    returns the canonical form in the suffix family of the left operand, or of the right one if the left is zero.

    Raises:
        ValueError: the text is not a quantity.

    >>> Quantity("500m") + Quantity("1")
    Quantity('1500m')
    >>> int(Quantity("1Ki"))
    1024
    """

    __slots__ = ("_family", "_text", "value")

    def __init__(self, amount: str | float | Decimal) -> None:
        if isinstance(amount, bool):
            raise ValueError(f"{amount} is not a quantity: pass a number or a string")  # noqa: TRY004 - for msgspec
        if isinstance(amount, float | int):
            amount = Decimal(str(amount))
        text = amount if isinstance(amount, str) else format(amount, "f")
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is not a quantity: write a number with an optional suffix such as m, k, M, Ki, Gi"
            )
        number, exponent, suffix = match.groups()
        self._text = text
        self._family = "e" if exponent else "b" if suffix in _BINARY else ""
        try:
            self.value: Decimal = _EXACT.multiply(
                _EXACT.create_decimal(number + (exponent or "")), _SUFFIXES.get(suffix, Decimal(1))
            )
            """The exact value in the base unit."""
        except ArithmeticError as error:
            raise ValueError(
                f"{text[:80]!r} is not a quantity: the number is too large or has too many digits"
            ) from error

    @classmethod
    def of(cls, value: Decimal, *, binary: bool = False) -> Quantity:
        """Return the canonical quantity of `value`: no fraction, and the largest suffix that allows it."""
        return cls._of(value, "b" if binary else "")

    @classmethod
    def _of(cls, value: Decimal, family: str) -> Quantity:
        quantity = cls(cls._canonical(value, family))
        quantity._family = family  # a binary quantity such as "1000" may have no suffix that shows its family
        return quantity

    @staticmethod
    def _canonical(value: Decimal, family: str) -> str:
        """Return the number with the largest suffix of its family that leaves an integer."""
        # Integers in units of 1e-9. Upstream rounds smaller fractions away from zero (Quantity.RoundUp).
        nano = int(_EXACT.scaleb(value, 9).to_integral_value("ROUND_UP"))
        whole, rest = divmod(nano, 10**9)
        # Below 1024, upstream writes binary quantities as decimal ones (Quantity.CanonicalizeBytes).
        if family == "b" and not rest and abs(whole) >= 1024:
            for suffix in _BINARY:
                if whole % int(_SUFFIXES[suffix]) == 0:
                    return f"{whole // int(_SUFFIXES[suffix])}{suffix}"
            return str(whole)
        for suffix in (*_DECIMAL, "", *_FRACTIONS):
            unit = int(_SUFFIXES.get(suffix, Decimal(1)).scaleb(9))
            if (nano or suffix == "") and nano % unit == 0:
                return f"{nano // unit}{_EXPONENTS.get(suffix, '') if family == 'e' else suffix}"
        raise AssertionError(value)  # the last unit is one billionth

    @property
    def whole(self) -> bool:
        """Whether the quantity has no fraction."""
        return self.value == self.value.to_integral_value()

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return self.value == other.value
        return NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __add__(self, other: Quantity) -> Quantity:
        return self._of(_EXACT.add(self.value, other.value), self._joint(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return self._of(_EXACT.subtract(self.value, other.value), self._joint(other))

    def _joint(self, other: Quantity) -> str:
        return self._family if self.value else other._family

    def __mul__(self, factor: int | Decimal) -> Quantity:
        return self._of(_EXACT.multiply(self.value, Decimal(factor)), self._family)

    def __int__(self) -> int:
        return int(self.value.to_integral_value("ROUND_UP"))

    def __float__(self) -> float:
        return float(self.value)

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: object) -> Quantity:
        return self


IntOrString = int | str
"""A number, or a string such as ``25%`` or the name of a port."""
