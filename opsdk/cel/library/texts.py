"""Small libraries: ``find`` and ``findAll``, two-variable comprehensions, JSON patch key escaping.

Upstream: k8s.io/apiserver/pkg/cel/library/regex.go, jsonpatch.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opsdk.cel import regex
from opsdk.cel.declarations import CallEstimate, Library, Operand, Range, Sizes, function, method
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.evaluate import insert
from opsdk.cel.library.costs import estimate_regex, estimate_walk, regex_cost, walk
from opsdk.cel.macros import BINDINGS, TWO_VARIABLES
from opsdk.cel.types import INT, STRING, Value, list_of, map_of, param
from opsdk.errors import UsageError


# ------------------------------------------------------------------ regular expressions
def _find(text: str, pattern: str) -> str:
    try:
        return regex.find(pattern, text)
    except UsageError as error:
        raise CelEvaluationError(f"Illegal regex: {error}") from error


def _find_all(text: str, pattern: str, limit: int = -1) -> Sequence[str]:
    try:
        return regex.find_all(pattern, text, limit)
    except UsageError as error:
        raise CelEvaluationError(f"Illegal regex: {error}") from error


def _cost(args: Sequence[Value], _: Value) -> int:
    return regex_cost(len(args[0]), len(args[1]))


def _estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(estimate_regex(sizes, operands), Range(0, sizes.size(operands[0]).most))


_SEARCH: Final = {"cost": _cost, "estimate": _estimate}

REGEX_LIBRARY: Final = Library(
    functions={
        "find": [method("string_find_string", (STRING, STRING), STRING, _find, **_SEARCH)],
        "findAll": [
            method("string_find_all_string", (STRING, STRING), list_of(STRING), _find_all, **_SEARCH),
            method("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all, **_SEARCH),
        ],
    }
)
"""The regex library."""


# ------------------------------------------------------------------ two-variable comprehensions
_K: Final = param("K")
_V: Final = param("V")
_MAP: Final = map_of(_K, _V)


def _insert(entries: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    """Add an entry. The map is private to the comprehension, so it grows in place."""
    insert(entries, key, value)
    return entries


def _insert_all(entries: dict[Value, Value], others: Mapping[Value, Value]) -> dict[Value, Value]:
    for key, value in others.items():
        insert(entries, key, value)
    return entries


TWO_VARIABLES_LIBRARY: Final = Library(
    functions={
        "cel.@mapInsert": [
            function("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, _insert),
            function("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
        ]
    },
    macros=TWO_VARIABLES,
)
"""Two-variable comprehensions."""

BINDINGS_LIBRARY: Final = Library(macros=BINDINGS)
"""``cel.bind``."""


# ------------------------------------------------------------------ JSON patches
JSON_PATCH_LIBRARY: Final = Library(
    functions={
        "jsonpatch.escapeKey": [
            function(
                "string_jsonpatch_escapeKey_string",
                (STRING,),
                STRING,
                lambda key: key.replace("~", "~0").replace("/", "~1"),
                cost=walk(0),
                estimate=estimate_walk(keeps_size=True),
            )
        ]
    }
)
"""The JSON patch key library."""
