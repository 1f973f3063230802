"""The JSONPath of printer columns and scale paths. Pure.

Supports fields, quoted names, indices, slices, unions (``['a','b']``, ``[0,2]``), ``*``, ``..`` and filters. A filter
compares a path with a value or another path, or tests whether it exists.

Upstream: k8s.io/client-go/util/jsonpath (v1.36)
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from typing import Final

from opsdk.aio.large_work import check_time, is_spent
from opsdk.base.limits import LIMITS
from opsdk.base.text_cache import text_cache
from opsdk.structured_merge.value import JsonValue

_NAME = r"""'(?:\\.|[^'\\])*+'"""
_QUOTED = rf"""(?:{_NAME}|"(?:\\.|[^"\\])*+")"""
# Groups repeat with `*`, not with `*+`: before Python 3.11.5, an iteration of `(...)*+` that fails keeps the characters
# that it consumed (gh-106052). No text matches in two ways, so going back stays linear.
_STEP = re.compile(
    rf"""(?P<deep>\.)?\.(?P<field>(?:\\.|[^.\[\]\s,(){{}}@$\\])+)       # .field, ..field, .*, with escaped dots
    | [ @$]+(?P<word>\w*)                                              # nothing; with a word behind it, an error
    | \[(?P<all>\*)\]                                                  # [*]
    | \[(?P<slice>-?\d{{0,18}}:-?\d{{0,18}}(?::-?\d{{0,18}})?)\]  # [1:], [0:4:2]
    | \[(?P<indices>-?\d{{1,18}}(?:\s*+,\s*+-?\d{{1,18}})*)\]             # [0], [0,2]
    | \[\s*+(?P<names>{_NAME}(?:\s*+,\s*+{_NAME})*)\s*+\]          # ['a'], ['a','b']
    | \[\?\(\s*+@(?P<left>(?:[^=!<>)]|\)(?!\]))*)
      (?:(?P<op>==|!=|<=|>=|<|>)\s*+(?P<right>{_QUOTED}\s*+(?=\))|[^)]*+))?\)\]
    """,
    re.VERBOSE,
)
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_END: JsonValue = object()  # equal to no value
_CACHED: Final = 1024
"""Characters of a path above which it is parsed each time."""
Steps = tuple[re.Match[str], ...]


def valid(path: str) -> bool:
    """Return whether `path` parses."""
    return path.startswith((".", "[", "$", "@")) and _split(path) is not None


@text_cache(1024, longest=_CACHED)
def _split(path: str) -> Steps | None:
    matches: list[re.Match[str]] = []
    path = path.removeprefix("$").removeprefix("@")
    position = len(path) if path == "." else 0
    while position < len(path):
        check_time()
        match = _STEP.match(path, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end()
    return tuple(matches)


class _BudgetError(Exception):
    """An evaluation visits too many values, or the budget of time is spent."""


class _Budget:
    """The values that one evaluation may still visit: ``..*..*`` visits a value once for each one above it."""

    def __init__(self) -> None:
        self._left = LIMITS.json_path_values

    def spend(self) -> None:
        """Count one value. Raises `_BudgetError`."""
        self._left -= 1
        if self._left < 0:
            raise _BudgetError
        if not self._left & _VALUES_AT_ONCE:
            _check_time()


_VALUES_AT_ONCE: Final = 63
"""Values that are visited between two checks of the time: a bit mask, because it is used for each value."""


def _check_time() -> None:
    """Raise `LeavesLoopError` or `_BudgetError` if the evaluation takes too long, see `opsdk.aio.large_work`."""
    check_time()
    if is_spent():
        raise _BudgetError


def find(tree: JsonValue, path: str) -> list[JsonValue]:
    """Return the values at `path`.

    A path that does not exist has no values, nor one that visits more than `Limits.json_path_values`, or takes longer
    than the budget of time (`opsdk.aio.large_work.attempt_output`).

    >>> find({"status": {"c": [{"type": "Ready", "status": "True"}]}}, '.status.c[?(@.type=="Ready")].status')
    ['True']
    >>> find({"a": [1, 2, 3], "b": {"c": {"d": 4}}}, ".a[1:]"), find({"b": {"c": {"d": 4}}}, "..d")
    ([2, 3], [4])
    """
    try:
        if len(path) > _CACHED:
            _check_time()
        return _find(tree, path, _Budget())
    except _BudgetError:
        return []


def _find(tree: JsonValue, path: str, budget: _Budget) -> list[JsonValue]:
    values = [tree]
    try:
        for step in _split(path) or ():
            values = [next_value for value in values for next_value in _walk(value, step, budget)]
    except IndexError:
        return []
    return values


def _walk(value: JsonValue, step: re.Match[str], budget: _Budget) -> Iterator[JsonValue]:
    """Yield the values to which one step leads from a value."""
    if step["word"] is not None:
        if step["word"]:
            raise IndexError(step["word"])
        yield value
    elif step["field"] is not None:
        yield from _fields(value, step, budget)
    elif step["names"] is not None:
        for quoted in re.findall(r"'(?:\\.|[^'])*+(?:'|\Z)", step["names"]):
            yield from _find(value, f".{quoted[1:-1]}", budget)
    elif step["all"]:
        for part in _children(value):
            budget.spend()
            yield part
    elif isinstance(value, list):
        yield from _elements(value, step, budget)


def _fields(value: JsonValue, step: re.Match[str], budget: _Budget) -> Iterator[JsonValue]:
    name = step["field"].replace("\\", "")
    for element in _descendants(value, budget) if step["deep"] else (value,):
        for part in _children(element) if name == "*" else _named(element, name):
            budget.spend()
            yield part


def _named(value: JsonValue, name: str) -> Iterator[JsonValue]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _children(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: JsonValue, budget: _Budget) -> Iterator[JsonValue]:
    """Yield a value and all values below it, each before those below it."""
    waiting = [iter((value,))]
    while waiting:
        element = next(waiting[-1], _END)
        if element is _END:
            waiting.pop()
            continue
        budget.spend()
        yield element
        waiting.append(_children(element))


def _elements(value: list[JsonValue], step: re.Match[str], budget: _Budget) -> Iterator[JsonValue]:
    if step["slice"] is not None:
        first, last, *by = (int(part) if part else None for part in step["slice"].split(":"))
        yield from _sliced(value, first, last, 1 if not by or by[0] is None else by[0])
    elif step["indices"] is not None:
        yield from (value[int(part)] for part in step["indices"].split(","))
    else:
        yield from (element for element in value if _matches_filter(element, step, budget))


def _sliced(value: list[JsonValue], first: int | None, last: int | None, by: int) -> list[JsonValue]:
    """Return a slice. Both ends must be in range, unless the slice is empty."""
    size = len(value)
    start = 0 if first is None else first + size if first < 0 else first
    end = size if last is None else last + size if last < 0 else last
    if by < 1 or (start != end and not 0 <= start < end <= size):
        raise IndexError(start)
    return value[start:end:by]


def _matches_filter(element: JsonValue, step: re.Match[str], budget: _Budget) -> bool:
    """Whether an element fulfils a filter, compared as Go's template does."""
    budget.spend()
    _check_time()  # a long path within a filter is parsed for each element
    values = _find(element, step["left"].rstrip(), budget)
    if step["op"] is None:
        return bool(values)
    if not values:
        return False
    right = step["right"].strip()
    expected: JsonValue = next(iter(_find(element, right, budget)), None) if right.startswith("@") else _literal(right)
    # Numbers compare with numbers, strings with strings, and booleans for equality only.
    op, actual = step["op"], values[0]
    if isinstance(actual, bool) or isinstance(expected, bool):
        fits = type(actual) is type(expected) and op in ("==", "!=")
    else:
        fits = all(isinstance(v, (int, float)) for v in (actual, expected)) or type(actual) is type(expected) is str
    return fits and bool(_COMPARE[op](actual, expected))


def _literal(text: str) -> JsonValue:
    if text[:1] in ("'", '"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return json.loads(text)
    except ValueError:
        return text
