"""Resource quantities: ``100m``, ``1Gi``, ``2e3``."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import total_ordering
from typing import Any

_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?$")
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


@total_ordering
class Quantity:
    """An exact amount with the suffix it was written with.

    Equal by value: ``Quantity("1") == Quantity("1000m")``. ``str()`` keeps what was written. Arithmetic gives the
    canonical form in the suffix family of the left side. ``ValueError`` for text that is no quantity.

    >>> Quantity("500m") + Quantity("1")
    Quantity('1500m')
    >>> int(Quantity("1Ki"))
    1024
    """

    __slots__ = ("_family", "_text", "value")

    def __init__(self, amount: str | float | Decimal) -> None:
        text = amount if isinstance(amount, str) else format(Decimal(str(amount)), "f")
        match = _FORM.match(text)
        if match is None:
            raise ValueError(f"{text!r} is no quantity: write a number with an optional suffix such as m, k, M, Ki, Gi")
        number, exponent, suffix = match.groups()
        self._text = text
        self._family = "e" if exponent else suffix if suffix in _BINARY else ""
        self.value: Decimal = Decimal(number + (exponent or "")) * _SUFFIXES.get(suffix, Decimal(1))
        """The exact amount in the base unit."""

    @classmethod
    def of(cls, value: Decimal, *, binary: bool = False) -> Quantity:
        """The canonical quantity of an exact amount: no fraction, the largest suffix that allows it."""
        if value == value.to_integral_value():
            for suffix in _BINARY if binary else _DECIMAL:
                scaled = value / _SUFFIXES[suffix]
                if scaled and scaled == scaled.to_integral_value():
                    return cls(f"{int(scaled)}{suffix}")
            return cls(str(int(value)))
        for suffix in _FRACTIONS:
            scaled = value / _SUFFIXES[suffix]
            if scaled == scaled.to_integral_value():
                return cls(f"{int(scaled)}{suffix}")
        # Finer than nano is rounded up, as the server does.
        return cls(f"{int((value / _SUFFIXES['n']).to_integral_value('ROUND_UP'))}n")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return self.value == other.value
        return NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity.of(self.value + other.value, binary=self._family in _BINARY)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity.of(self.value - other.value, binary=self._family in _BINARY)

    def __mul__(self, factor: int | Decimal) -> Quantity:
        return Quantity.of(self.value * factor, binary=self._family in _BINARY)

    def __int__(self) -> int:
        return int(self.value.to_integral_value("ROUND_UP"))

    def __float__(self) -> float:
        return float(self.value)

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: Any) -> Quantity:
        return self


IntOrString = int | str
"""A number or a text such as ``25%`` or a port's name."""


def resolve_int_or_percent(value: IntOrString, total: int, *, round_up: bool) -> int:
    """The number that ``3`` or ``"25%"`` means of `total`; ``ValueError`` for any other text.

    >>> resolve_int_or_percent("25%", 10, round_up=True)
    3
    """
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{value!r} is neither a number nor a percentage")
    product = int(digits) * total
    return -(-product // 100) if round_up else product // 100
