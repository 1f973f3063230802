"""Encodes warnings as ``Warning`` headers. Pure.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/warning.go (v1.36).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_MOST = 4096
"""Most characters of all warnings of a response. Longer warnings are truncated, and then dropped."""
_MOST_OF_ONE = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    r"""Return the values of ``Warning`` headers; strings with control characters are dropped.

    >>> warning_headers(["old", "new\tone", ""])
    ['299 - "old"']
    """
    sent = [text for text in texts if text and not any(unicodedata.category(char) == "Cc" for char in text)]
    if sum(map(len, sent)) > _MOST:
        rest, sent, room = sent, [], _MOST
        for text in rest:
            if room <= 0:  # the last one may exceed the limit
                break
            sent.append(text[:_MOST_OF_ONE])
            room -= len(sent[-1])
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in sent)
    return [f'299 - "{text}"' for text in escaped]
