"""Optional values: ``optional.of``, ``orValue``, ``optMap`` and related functions.

Upstream: github.com/google/cel-go/cel/library.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.cel.declarations import Library, function, method
from opsdk.cel.macros import OPTIONALS
from opsdk.cel.types import BOOL, STRING, Value, list_of, optional_of, param
from opsdk.cel.values import Optional, is_zero

_V: Final = param("V")
_OPTIONAL: Final = optional_of(_V)
_LIST: Final = list_of(_V)


def _or_value(first: Optional, second: Value) -> Value:
    return first.value if first.has_value else second


def _unwrap(optionals: Sequence[Optional]) -> list[Value]:
    return [one.value for one in optionals if one.has_value]


OPTIONALS_LIBRARY: Final = Library(
    functions={
        "optional.of": [function("optional_of", (_V,), _OPTIONAL, Optional.of)],
        "optional.ofNonZeroValue": [
            function(
                "optional_ofNonZeroValue",
                (_V,),
                _OPTIONAL,
                lambda value: Optional.none() if is_zero(value) else Optional.of(value),
            )
        ],
        "optional.none": [function("optional_none", (), _OPTIONAL, Optional.none)],
        "value": [method("optional_value", (_OPTIONAL,), _V, lambda optional: optional.value)],
        "hasValue": [method("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.has_value)],
        "or": [
            method(
                "optional_or_optional",
                (_OPTIONAL, _OPTIONAL),
                _OPTIONAL,
                lambda first, second: first if first.has_value else second,
            )
        ],
        "orValue": [method("optional_orValue_value", (_OPTIONAL, _V), _V, _or_value)],
        "optional.unwrap": [function("optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap)],
        "unwrapOpt": [method("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap)],
        "first": [
            method(
                "list_first",
                (_LIST,),
                _OPTIONAL,
                lambda elements: Optional.of(elements[0]) if elements else Optional.none(),
            )
        ],
        "last": [
            method(
                "list_last",
                (_LIST,),
                _OPTIONAL,
                lambda elements: Optional.of(elements[-1]) if elements else Optional.none(),
            )
        ],
        "_?._": [function("select_optional_field", (param("D"), STRING), optional_of(param("R")), _or_value)],
    },
    macros=OPTIONALS,
    types={"optional_type": optional_of(_V)},
)
"""The optional library."""
