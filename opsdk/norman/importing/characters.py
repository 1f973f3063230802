"""The characters that a regular expression allows.

Upstream: none.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache

_ESCAPES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_"}
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d*+,?+\d*+\}\??")
_GROUP = re.compile(r"\((?:\?:)?(?!\?)")
_CLASS = re.compile(r"\[((?:\\.|[^\\\]^\[])(?:\\.|[^\\\]\[])*)\]")
_LITERAL = re.compile(r"\\([dw]|[^0-9A-Za-z])|([^\\.\[\]{}*+?^$|()])")
_RANGE = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|(\\.|[^\\])")


@lru_cache(maxsize=1024)
def allowed_characters(pattern: str) -> str:
    r"""Return the characters of all strings that a pattern in RE2's syntax matches; empty if all are possible.

    The pattern must be anchored at both ends, and consist of characters, classes, groups and quantifiers.

    >>> allowed_characters("^v[0-9]+$"), allowed_characters(r"^(a|\.)*$"), allowed_characters("^[^/]+$")
    ('0123456789v', '.a', '')
    """
    if not (pattern.startswith("^") and pattern.endswith("$")) or pattern.endswith("\\$"):
        return ""
    text, position, depth = pattern[1:-1], 0, 0
    characters: set[str] = set()
    while position < len(text):
        if text[position] == ")" or (text[position] == "|" and depth):
            depth -= text[position] == ")"
            position += 1
            continue
        if match := _GROUP.match(text, position):
            depth += 1
        elif match := _CLASS.match(text, position):
            members = _members(match[1])
            if members is None:
                return ""
            characters |= members
        elif match := _LITERAL.match(text, position):
            characters |= set(_ESCAPES.get(match[1] or "", match[1] or match[2]))
        elif not (position and (match := _QUANTIFIER.match(text, position))):
            return ""
        assert match is not None
        position = match.end()
    return "".join(sorted(characters)) if depth == 0 else ""


def _members(text: str) -> set[str] | None:
    """Return the characters of a class; None for escapes that are not known."""
    members: set[str] = set()
    for match in _RANGE.finditer(text):
        ends = [_unescaped(part) for part in match.groups() if part is not None]
        if any(end is None for end in ends):
            return None
        first, *last = (end for end in ends if end is not None)
        if last and len(first) == len(last[0]) == 1:
            members |= {chr(code) for code in range(ord(first), ord(last[0]) + 1)}
        else:
            members |= {*first, *"".join(last), *("-" if last else "")}
    return members


def _unescaped(part: str) -> str | None:
    if not part.startswith("\\"):
        return part
    return _ESCAPES.get(part[1]) or (None if part[1].isalnum() else part[1])
