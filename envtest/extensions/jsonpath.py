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
from functools import lru_cache

from opsdk.structured_merge.value import JsonValue

_NAME = r"""'(?:\\.|[^'\\])*+'"""
_QUOTED = rf"""(?:{_NAME}|"(?:\\.|[^"\\])*+")"""
_STEP = re.compile(
    rf"""(?P<deep>\.)?\.(?P<field>(?:\\.|[^.\[\]\s,(){{}}@$\\])+)       # .field, ..field, .*, with escaped dots
    | [ @$]+(?P<word>\w*)                                              # nothing; with a word behind it, an error
    | \[(?P<all>\*)\]                                                  # [*]
    | \[(?P<slice>-?\d{{0,18}}:-?\d{{0,18}}(?::-?\d{{0,18}})?)\]  # [1:], [0:4:2]
    | \[(?P<indices>-?\d{{1,18}}(?:\s*+,\s*+-?\d{{1,18}})*+)\]            # [0], [0,2]
    | \[\s*+(?P<names>{_NAME}(?:\s*+,\s*+{_NAME})*+)\s*+\]         # ['a'], ['a','b']
    | \[\?\(\s*+@(?P<left>(?:[^=!<>)]|\)(?!\]))*+)
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
Steps = tuple[re.Match[str], ...]


def valid(path: str) -> bool:
    """Return whether `path` parses."""
    return path.startswith((".", "[", "$", "@")) and _split(path) is not None


@lru_cache(maxsize=1024)
def _split(path: str) -> Steps | None:
    matches: list[re.Match[str]] = []
    path = path.removeprefix("$").removeprefix("@")
    position = len(path) if path == "." else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end()
    return tuple(matches)


def find(tree: JsonValue, path: str) -> list[JsonValue]:
    """Return the values at `path`; a path that does not exist has no values.

    >>> find({"status": {"c": [{"type": "Ready", "status": "True"}]}}, '.status.c[?(@.type=="Ready")].status')
    ['True']
    >>> find({"a": [1, 2, 3], "b": {"c": {"d": 4}}}, ".a[1:]"), find({"b": {"c": {"d": 4}}}, "..d")
    ([2, 3], [4])
    """
    values = [tree]
    try:
        for step in _split(path) or ():
            values = [value_found for value in values for value_found in _walk(value, step)]
    except IndexError:
        return []
    return values


def _walk(value: JsonValue, step: re.Match[str]) -> Iterator[JsonValue]:
    if step["word"] is not None:
        if step["word"]:
            raise IndexError(step["word"])
        yield value
    elif step["field"] is not None:
        name = step["field"].replace("\\", "")
        for element in _everything(value) if step["deep"] else (value,):
            yield from _children(element) if name == "*" else _named(element, name)
    elif step["names"] is not None:
        for quoted in re.findall(r"'(?:\\.|[^'])*+(?:'|\Z)", step["names"]):
            yield from find(value, f".{quoted[1:-1]}")
    elif step["all"]:
        yield from _children(value)
    elif isinstance(value, list):
        yield from _elements(value, step)


def _named(value: JsonValue, name: str) -> Iterator[JsonValue]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _children(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everything(value: JsonValue) -> Iterator[JsonValue]:
    yield value
    for child in _children(value):
        yield from _everything(child)


def _elements(value: list[JsonValue], step: re.Match[str]) -> Iterator[JsonValue]:
    if step["slice"] is not None:
        first, last, *by = (int(part) if part else None for part in step["slice"].split(":"))
        yield from _sliced(value, first, last, 1 if not by or by[0] is None else by[0])
    elif step["indices"] is not None:
        yield from (value[int(part)] for part in step["indices"].split(","))
    else:
        yield from (element for element in value if _passes(element, step))


def _sliced(value: list[JsonValue], first: int | None, last: int | None, by: int) -> list[JsonValue]:
    """Return a slice. Both ends must be in range, unless the slice is empty."""
    size = len(value)
    start = 0 if first is None else first + size if first < 0 else first
    end = size if last is None else last + size if last < 0 else last
    if by < 1 or (start != end and not 0 <= start < end <= size):
        raise IndexError(start)
    return value[start:end:by]


def _passes(element: JsonValue, step: re.Match[str]) -> bool:
    values = find(element, step["left"].rstrip())
    if step["op"] is None:
        return bool(values)
    if not values:
        return False
    right = step["right"].strip()
    expected: JsonValue = next(iter(find(element, right)), None) if right.startswith("@") else _literal(right)
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
