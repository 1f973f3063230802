"""RE2 regular expressions, whose run time is linear in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from opsdk.base.extras import RequiredExtra
from opsdk.base.text_cache import text_cache
from opsdk.errors import UsageError


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> Any:
        """Return the first match in `text`, or None."""
        ...

    def finditer(self, text: str) -> Any:
        """Return all matches."""
        ...


_MAX_LENGTH: Final = 10_000
"""Characters of an expression. RE2's parser takes quadratic time for some: 40,000 characters of ``a?`` take 0.6 s, and
100,000 take 4 s. Go limits the size of the compiled program, with the same message."""
_MESSAGES: Final = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's error messages where Go's differ."""


@text_cache(4096, longest=1024)
def compile_regex(pattern: str) -> Pattern:
    """Compile a regular expression; `search` finds a match anywhere unless it is anchored.

    Raises:
        UsageError: it is not valid RE2, or longer than 10,000 characters; the message is Go's.

    >>> bool(compile_regex("^a+$").search("aaa"))
    True
    """
    if len(pattern) > _MAX_LENGTH:
        raise UsageError("error parsing regexp: expression too large")
    with RequiredExtra("apiserver", "a regular expression of RE2"):
        import re2

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
    """Return the first match, or an empty string."""
    match = compile_regex(pattern).search(text)
    return str(match[0]) if match else ""


def find_all(pattern: str, text: str, limit: int = -1) -> Sequence[str]:
    """Return the matches, at most `limit` unless it is negative."""
    matches: list[str] = []
    for match in compile_regex(pattern).finditer(text):
        if 0 <= limit <= len(matches):
            break
        matches.append(match[0])
    return matches
