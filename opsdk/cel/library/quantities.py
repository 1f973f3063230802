"""Resource quantities and semantic versions.

Upstream: k8s.io/apiserver/pkg/cel/library/quantity.go, semverlib.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final

from opsdk.apimachinery.quantity import Quantity
from opsdk.cel.declarations import Library, Overload, function, method
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.costs import estimate_unit, unit, walk
from opsdk.cel.types import BOOL, DOUBLE, INT, STRING, Type, Value, opaque
from opsdk.cel.values import Opaque

QUANTITY: Final = opaque("kubernetes.Quantity")
SEMVER: Final = opaque("kubernetes.Semver")

_UNIT: Final = {"cost": unit, "estimate": estimate_unit}
_PARSE: Final = {"cost": walk(0)}


class QuantityValue(Opaque):
    """A resource quantity."""

    __slots__ = ("amount",)
    cel_type: ClassVar[Type] = QUANTITY

    def __init__(self, amount: Quantity) -> None:
        self.amount = amount

    def equals(self, other: Value) -> bool:
        """Compare by value."""
        return isinstance(other, QuantityValue) and self.amount == other.amount


_FORM: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(Quantity(text))
    except ValueError:
        raise CelEvaluationError(_FORM) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity(text)
    except ValueError:
        return False
    return True


def _integer(quantity: QuantityValue) -> int:
    value = quantity.amount.value
    if value != int(value) or not -(2**63) <= value < 2**63:
        raise CelEvaluationError("cannot convert value to integer")
    return int(value)


def _is_integer(quantity: QuantityValue) -> bool:
    value = quantity.amount.value
    return bool(value == int(value) and -(2**63) <= value < 2**63)


def _sign(left: Value, right: Value) -> int:
    return int(left > right) - int(left < right)


def _arithmetic(name: str, call: Callable[[Quantity, Quantity], Quantity]) -> list[Overload]:
    def apply(quantity: QuantityValue, other: QuantityValue | int) -> QuantityValue:
        return QuantityValue(
            call(quantity.amount, other.amount if isinstance(other, QuantityValue) else Quantity(str(int(other))))
        )

    return [
        method(f"quantity_{name}", (QUANTITY, QUANTITY), QUANTITY, apply, **_UNIT),
        method(f"quantity_{name}_int", (QUANTITY, INT), QUANTITY, apply, **_UNIT),
    ]


def _comparisons(type_: Type, name: str, key: Callable[[Value], Value]) -> dict[str, list[Overload]]:
    def make(id_: str, result: Type, call: Callable[[int], Value]) -> list[Overload]:
        return [
            method(f"{name}_{id_}", (type_, type_), result, lambda a, b: call(_sign(key(a), key(b))), **_UNIT),
        ]

    return {
        "isLessThan": make("is_less_than", BOOL, lambda sign: sign < 0),
        "isGreaterThan": make("is_greater_than", BOOL, lambda sign: sign > 0),
        "compareTo": make("compare_to", INT, lambda sign: sign),
    }


QUANTITY_LIBRARY: Final = Library(
    functions={
        "quantity": [function("string_to_quantity", (STRING,), QUANTITY, _quantity, **_PARSE)],
        "isQuantity": [function("is_quantity_string", (STRING,), BOOL, _is_quantity, **_PARSE)],
        "sign": [function("quantity_sign", (QUANTITY,), INT, lambda one: _sign(one.amount.value, 0), **_UNIT)],
        "isInteger": [method("quantity_is_integer", (QUANTITY,), BOOL, _is_integer, **_UNIT)],
        "asInteger": [method("quantity_get_int", (QUANTITY,), INT, _integer, **_UNIT)],
        "asApproximateFloat": [
            method("quantity_get_float", (QUANTITY,), DOUBLE, lambda one: float(one.amount.value), **_UNIT)
        ],
        "add": _arithmetic("add", lambda one, other: one + other),
        "sub": _arithmetic("sub", lambda one, other: one - other),
        **_comparisons(QUANTITY, "quantity", lambda one: one.amount.value),
    },
    types={QUANTITY.name: QUANTITY},
)
"""Resource quantities such as ``100m`` and ``1Gi``."""


# ------------------------------------------------------------------ semantic versions
class SemverValue(Opaque):
    """A semantic version."""

    __slots__ = ("key", "numbers")
    cel_type: ClassVar[Type] = SEMVER

    def __init__(self, numbers: tuple[int, int, int], prerelease: str) -> None:
        self.numbers = numbers
        # A prerelease precedes its release, and numeric identifiers precede alphanumeric ones.
        parts = [(0, len(one), one) if one.isdigit() else (1, 0, one) for one in prerelease.split(".")]
        self.key = (numbers, (0, *parts) if prerelease else (1,))

    def equals(self, other: Value) -> bool:
        """Compare by precedence, which ignores build metadata."""
        return isinstance(other, SemverValue) and self.key == other.key


_NUMBER: Final = r"(0|[1-9][0-9]*)"
_IDENT: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENT}(?:\.{_IDENT})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.DOTALL)


@lru_cache(maxsize=512)
def _parse(text: str) -> SemverValue | None:
    match = _SEMVER.fullmatch(text)
    if match is None or max(map(len, match.groups()[:3])) > 20:
        return None
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    return SemverValue(numbers, match[4] or "") if max(numbers) < 2**64 else None


def _normalized(text: str) -> str:
    """Return the version with three numbers, without a leading v and leading zeros."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        return text
    return ".".join((one or "0").lstrip("0") or "0" for one in match.groups()[:3]) + (match[4] or "")


def _semver(text: str, loose: bool = False) -> SemverValue:
    version = _parse(_normalized(text) if loose else text)
    if version is None:
        raise CelEvaluationError(_fault(text))
    return version


def _fault(text: str) -> str:
    if not text:
        return "Version string empty"
    numbers = text.split(".", 2)
    if len(numbers) != 3:
        return "No Major.Minor.Patch elements found"
    for name, number in zip(("major", "minor", "patch"), (*numbers[:2], re.split(r"[-+]", numbers[2])[0]), strict=True):
        if not number.isdecimal():
            return f'Invalid character(s) found in {name} number "{number}"'
        if number.startswith("0") and len(number) > 1:
            return f'{name.title()} number must not contain leading zeroes "{number}"'
    return f'Invalid character(s) found in "{text}"'


def _is_semver(text: str, loose: bool = False) -> bool:
    return _parse(_normalized(text) if loose else text) is not None


def _part(name: str, at: int) -> list[Overload]:
    return [method(f"semver_{name}", (SEMVER,), INT, lambda one: one.numbers[at], **_UNIT)]


SEMVER_LIBRARY: Final = Library(
    functions={
        "semver": [
            function("string_to_semver", (STRING,), SEMVER, _semver, **_PARSE),
            function("string_bool_to_semver", (STRING, BOOL), SEMVER, _semver, **_PARSE),
        ],
        "isSemver": [
            function("is_semver_string", (STRING,), BOOL, _is_semver, **_PARSE),
            function("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver, **_PARSE),
        ],
        "major": _part("major", 0),
        "minor": _part("minor", 1),
        "patch": _part("patch", 2),
        **_comparisons(SEMVER, "semver", lambda one: one.key),
    },
    types={SEMVER.name: SEMVER},
)
"""Semantic versions such as ``1.2.3-rc.1``."""
