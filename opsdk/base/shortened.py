"""Texts of a limited length, for messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, limit: int) -> str:
    """Return a string of at most `limit` characters. A shortened string ends with three dots.

    >>> shortened("ready", 5), shortened("not ready", 5)
    ('ready', 'no...')
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names of a list, and the number of the others.

    >>> listed(["a", "b", "c"], 3), listed(["a", "b", "c"], 2)
    ('a, b, c', 'a, b and 1 more')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
