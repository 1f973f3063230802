"""Validation of limit ranges.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.core import resource_names
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_LOWER: Final = ("max", "min")
_DEFAULTS: Final = ("default", "defaultRequest")
_RATIO: Final = "maxLimitRequestRatio"


def validate_limit_range(obj: JsonObject) -> Iterator[Cause]:
    """Validate each limit."""
    types = set[str]()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = limit.get("type", "")
        wrong = qualified_name(kind)
        yield from validation.each(wrong, kind, f"{path}.type")
        if not wrong and "/" not in kind and kind not in _TYPES:
            yield api_errors.invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in types:
            yield api_errors.duplicate(f"{path}.type", kind)
        types.add(kind)
        yield from _names(limit, path)
        for key in sorted({name for part in _parts(kind) for name in limit.get(part) or {}}):
            yield from _ordered(_Amounts(limit, key, kind), path, key)


def _parts(kind: str) -> Sequence[str]:
    return (*_LOWER, *(() if kind == "Pod" else _DEFAULTS), _RATIO)


def _names(limit: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the names of a limit's resources, and with where they may stand."""
    kind = limit.get("type", "")
    rule = resource_names.container_name if kind in ("Pod", "Container") else resource_names.standard_name
    for part in (*_LOWER, *_DEFAULTS):
        if part in _DEFAULTS and kind == "Pod":
            if limit.get(part):
                yield api_errors.not_allowed(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            continue
        for name in sorted(limit.get(part) or {}):
            yield from rule(name, f"{path}.{part}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(part) or {}) for part in _LOWER):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield api_errors.required(f"{path}.limits", text)
    for name in sorted(limit.get(_RATIO) or {}):
        yield from rule(name, f"{path}.{_RATIO}[{name}]")


class _Amounts:
    """The minimum, maximum, defaults and ratio of one resource."""

    def __init__(self, limit: JsonObject, name: str, kind: str) -> None:
        texts: Mapping[str, str | None] = {part: (limit.get(part) or {}).get(name) for part in _parts(kind)}
        self.quantities = {part: Quantity(text) for part, text in texts.items() if text is not None}

    def above(self, low: str, high: str) -> tuple[Quantity, Quantity] | None:
        """Return both quantities if `low` exceeds `high`."""
        if low in self.quantities and high in self.quantities and self.quantities[low] > self.quantities[high]:
            return self.quantities[low], self.quantities[high]
        return None


_ORDER: Final = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)
"""The lower and the higher field, the fields of the error and of its value, and both names in the message."""


def _ordered(amounts: _Amounts, path: str, name: str) -> Iterator[Cause]:
    """Yield where the amounts of one resource are not in order: minimum, default, maximum, ratio."""
    quantities = amounts.quantities
    for low, high, low_name, rendered, low_word, high_word in _ORDER:
        wrong = amounts.above(low, high)
        if wrong is not None:
            text = f"{low_word} value {wrong[0]} is greater than {high_word} value {wrong[1]}"
            yield api_errors.invalid_value(f"{path}.{low_name}[{name}]", str(quantities[rendered]), text)
    if _RATIO in quantities:
        item_path = f"{path}.{_RATIO}[{name}]"
        ratio = quantities[_RATIO]
        if ratio < Quantity("1"):
            yield api_errors.invalid_value(item_path, str(ratio), f"ratio {ratio} is less than 1")
        if set(_LOWER) <= quantities.keys() and quantities["min"].value:
            most = float(quantities["max"].value / quantities["min"].value)
            if float(ratio) > most:
                yield api_errors.invalid_value(
                    item_path, str(ratio), f"ratio {ratio} is greater than max/min = {most:.6f}"
                )
    if not resource_names.is_overcommit_allowed(name) and set(_DEFAULTS) <= quantities.keys():
        default, request = quantities["default"], quantities["defaultRequest"]
        if default != request:
            text = f"default value {default} must equal to defaultRequest value {request} in {name}"
            yield api_errors.invalid_value(f"{path}.defaultRequest[{name}]", str(request), text)
