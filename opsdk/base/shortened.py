"""Texts of a limited length, for messages. Pure."""

from __future__ import annotations


def shortened(text: str, limit: int) -> str:
    """Return a string of at most `limit` characters. A shortened string ends with three dots.

    >>> shortened("ready", 5), shortened("not ready", 5)
    ('ready', 'no...')
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
