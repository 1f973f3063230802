"""Number validation: bounds, multiples, formats, and floats that are integers. Pure.

Upstream: k8s.io/kube-openapi/pkg/validation/validate/values.go (v1.36).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from opsdk.apiserver.field_errors import FieldError, invalid
from opsdk.structured_merge.go_format import go_scalar

_EXACT: Final = 2**53 - 1
_CLOSE: Final = 1e-9
_BITS: Final = {"int32": (-(2**31), 2**31), "uint32": (0, 2**32), "uint64": (0, 2**64)}


def is_integral(value: float) -> bool:
    """Report whether a float is an integer, within Go's tolerance.

    >>> is_integral(3.0000000001), is_integral(2.9), is_integral(1e20)
    (True, False, False)
    """
    if not -_EXACT <= value <= _EXACT:
        return False
    whole = float(int(value))
    if value == whole:
        return True
    return whole != 0 and abs(value - whole) / (abs(value) + abs(whole)) < _CLOSE


def in_range(value: float, kind: str, form: str) -> bool:
    """Report whether a number fits a type and format; unknown types fit all."""
    if kind == "integer":
        low, high = _BITS.get(form, (-(2**63), 2**63))
        return (isinstance(value, int) or value.is_integer()) and low <= value < high
    if form in ("float", "float32"):
        try:
            struct.pack("<f", value)
        except OverflowError:
            return False
    return True


class NumberRules(msgspec.Struct, frozen=True, kw_only=True):
    """The numeric keywords of a schema.

    Attributes:
        kind: the type, if there is exactly one.
        form: the format.
        limit: returns the value of a keyword.
    """

    kind: str
    form: str
    limit: Callable[[str], Any]

    @property
    def count(self) -> int:
        """The number of keywords."""
        return sum(self.limit(keyword) is not None for keyword, _, _ in _CHECKS)

    def faults(self, value: float, name: str, at: str) -> Iterator[FieldError | str]:
        """Yield a number's errors; the errors that upstream reports without a field are plain strings.

        A bound that does not fit the type is an error for each value, and both are compared as floats then. Otherwise
        an integer is compared with the integer part of a bound.
        """
        yield from self._range(value, "Checked", name)
        for keyword, what, check in _CHECKS:
            bound = self.limit(keyword)
            if bound is None:
                continue
            wrong = list(self._range(bound, what, name))
            yield from wrong
            exact = isinstance(value, int) and not wrong
            message = check(value if exact else float(value), int(bound) if exact else float(bound), self.limit)
            if message is not None:
                limit_text, text = message
                yield invalid(at, limit_text, text.replace("%s", name))

    def _range(self, number: float, subject: str, name: str) -> Iterator[str]:
        if not in_range(number, self.kind, self.form):
            format_text = f"with format {self.form}" if self.form else "(default format)"
            yield f"{subject} value must be of type {self.kind or 'number'} {format_text} in {name}"


_Found = tuple[float, str] | None


def _check_multiple_of(value: float, step: float, limit: Callable[[str], Any]) -> _Found:  # noqa: ARG001 - one signature for all
    if step <= 0:
        return step, f"factor MultipleOf declared for %s must be positive: {go_scalar(step)}"
    if isinstance(value, int):
        good = value % int(step) == 0
    else:
        good = is_integral(value * (1 / step) if step < 1 else value / step)
    return None if good else (value, f"%s in body should be a multiple of {go_scalar(step)}")


def _check_minimum(value: float, bound: float, limit: Callable[[str], Any]) -> _Found:
    if limit("exclusiveMinimum"):
        return (value, f"%s in body should be greater than {go_scalar(bound)}") if value <= bound else None
    return (value, f"%s in body should be greater than or equal to {go_scalar(bound)}") if value < bound else None


def _check_maximum(value: float, bound: float, limit: Callable[[str], Any]) -> _Found:
    if limit("exclusiveMaximum"):
        return (value, f"%s in body should be less than {go_scalar(bound)}") if value >= bound else None
    return (value, f"%s in body should be less than or equal to {go_scalar(bound)}") if value > bound else None


_CHECKS: Final = (
    ("multipleOf", "MultipleOf", _check_multiple_of),
    ("minimum", "Minimum boundary", _check_minimum),
    ("maximum", "Maximum boundary", _check_maximum),
)
"""In upstream's order: keywords, their names in messages, and their checks."""
