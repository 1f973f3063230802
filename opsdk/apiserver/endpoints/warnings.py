"""Encodes warnings as ``Warning`` headers. Pure.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/warning.go (v1.36).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_MOST = 4096
"""Characters of all warnings together: from there on, long ones are cut, and then no more are told."""
_MOST_OF_ONE = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    r"""The values of ``Warning`` headers; what no header can carry is left out.

    >>> warning_headers(["old", "new\tone", ""])
    ['299 - "old"']
    """
    return [
        f'299 - "{_escaped(text)}"'
        for text in _fitting(
            [text for text in texts if (bool(text) and not any(unicodedata.category(char) == "Cc" for char in text))]
        )
    ]


def _fitting(texts: list[str]) -> list[str]:
    if sum(map(len, texts)) <= _MOST:
        return texts
    return _first([text[:_MOST_OF_ONE] for text in texts], _MOST)


def _first(texts: list[str], most: int) -> list[str]:
    """Return the first warnings up to the size limit; the last one may exceed it."""
    selected: list[str] = []
    for text in texts:
        if most <= 0:
            break
        selected.append(text)
        most -= len(text)
    return selected


def _escaped(text: str) -> str:
    """For a quoted string in a header."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
