"""Source positions and the snippets that error messages show.

Upstream: github.com/google/cel-go/common/source.go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

NOWHERE = -1
"""The offset of an issue of the whole expression."""


class Issue(msgspec.Struct, order=True, frozen=True):
    """An error at an offset in code points."""

    at: int
    message: str


class ExpressionSource:
    """The text of an expression.

    >>> print(ExpressionSource("1 +").report([Issue(3, "Syntax error")]))
    ERROR: <input>:1:4: Syntax error
     | 1 +
     | ...^
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def location(self, at: int) -> tuple[int, int]:
        """Return line and column of an offset; lines count from 1, columns from 0."""
        if at == NOWHERE:
            return NOWHERE, NOWHERE
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1]

    def report(self, issues: Iterable[Issue]) -> str:
        """Return all issues in the order of their positions, each with its line of the text."""
        ordered = sorted(issues, key=lambda issue: self.location(issue.at))
        lines: list[str] = []
        for issue in ordered:
            line, column = self.location(issue.at)
            lines.append(f"ERROR: <input>:{line}:{column + 1}: {issue.message}")
            if line == NOWHERE:
                continue
            text = self._lines[line - 1].replace("\t", " ")
            dots = "".join("." if char.isascii() else "．" for char in text[:column])  # noqa: RUF001 - a full-width character needs a full-width dot
            mark = "^" if text[column : column + 1].isascii() else "＾"  # noqa: RUF001
            lines += [f" | {text}", f" | {dots}{mark}"]
        return "\n".join(lines)
