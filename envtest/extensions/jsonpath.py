"""The JSONPath of printer columns and scale paths: fields, indices, ``[*]``, quoted names, equality filters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]])+)      # .field, with escaped dots
    | \[\s*(?P<index>-?\d+)\s*\]            # [0]
    | \[\s*(?P<all>\*)\s*\]                 # [*]
    | \[\s*(?P<quote>['"])(?P<name>.*?)(?P=quote)\s*\]
    | \[\?\(\s*@\.(?P<key>[\w.\-/]+)\s*==\s*(?P<mark>['"]?)(?P<value>[^'"\)]*)(?P=mark)\s*\)\]
    """,
    re.VERBOSE,
)


def valid(path: str) -> bool:
    """Whether `path` can be read."""
    return bool(path.startswith((".", "["))) and _split(path) is not None


def _split(path: str) -> list[re.Match[str]] | None:
    found, at = [], 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None
        found.append(match)
        at = match.end()
    return found


def find(tree: Any, path: str) -> list[Any]:
    """Every value that `path` leads to; nothing where it leads nowhere.

    >>> find({"status": {"c": [{"type": "Ready", "status": "True"}]}}, '.status.c[?(@.type=="Ready")].status')
    ['True']
    """
    values = [tree]
    for step in _split(path) or ():
        values = [found for value in values for found in _walk(value, step)]
    return values


def _walk(value: Any, step: re.Match[str]) -> Iterator[Any]:
    name = step["field"] if step["field"] is not None else step["name"]
    if name is not None:
        key = name.replace("\\.", ".")
        if key == "*" and isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, dict) and key in value:
            yield value[key]
        return
    if not isinstance(value, list):
        return
    if step["all"]:
        yield from value
    elif step["index"] is not None:
        index = int(step["index"])
        if -len(value) <= index < len(value):
            yield value[index]
    else:
        yield from (v for v in value if _text(find(v, f".{step['key']}")) == step["value"])


def _text(found: list[Any]) -> str:
    if not found:
        return ""
    return str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])
