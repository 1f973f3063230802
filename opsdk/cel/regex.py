"""RE2 regular expressions, whose run time is linear in the text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from opsdk.errors import UsageError


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> Any:
        """The first match anywhere, or None."""
        ...

    def finditer(self, text: str) -> Any:
        """All matches."""
        ...


_MESSAGES: Final = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's complaints in Go's words, where the two differ."""


@lru_cache(maxsize=4096)
def compile_regex(pattern: str) -> Pattern:
    """The expression for `search`, which finds it anywhere unless it is anchored.

    Raises:
        UsageError: it is no expression of RE2; the message says why, in Go's words.

    >>> bool(compile_regex("^a+$").search("aaa"))
    True
    """
    import re2  # noqa: PLC0415 - a server without patterns does not load it

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        raw = error.args[0] if error.args else ""
        text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
        reason, _, where = text.partition(": ")
        reason = _MESSAGES.get(reason, reason)
        raise UsageError(f"error parsing regexp: {reason}: `{where}`") from error
    except UnicodeError as error:
        raise UsageError("error parsing regexp: invalid UTF-8") from error
    return compiled


def find(pattern: str, text: str) -> str:
    """The first match, or nothing."""
    match = compile_regex(pattern).search(text)
    return str(match[0]) if match else ""


def find_all(pattern: str, text: str, limit: int = -1) -> Sequence[str]:
    """The matches, at most `limit` unless it is negative."""
    matches: list[str] = []
    for match in compile_regex(pattern).finditer(text):
        if 0 <= limit <= len(matches):
            break
        matches.append(match[0])
    return matches
