"""Escapes property names that are not CEL identifiers.

Upstream: k8s.io/apiserver/pkg/cel/escaping.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = (
    "true false null in as break const continue else for function if import let loop package namespace return var void"
    " while"
)
RESERVED: Final = frozenset(_WORDS.split())
"""Reserved words of CEL."""
_SYNTAX: Final = frozenset({"false", "in", "null", "true"})
_ESCAPABLE: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SPECIAL: Final = re.compile(r"__|[./-]")
_NAMES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape(name: str) -> str | None:
    """Return the CEL identifier of a property; None if it has none.

    >>> escape("x-y.z"), escape("namespace"), escape("a b")
    ('x__dash__y__dot__z', '__namespace__', None)
    """
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _SPECIAL.sub(lambda match: _NAMES[match[0]], name)


def spellings(name: str) -> tuple[str, ...]:
    """Return all CEL identifiers of a property: reserved words are valid field names too.

    >>> spellings("let"), spellings("a-b"), spellings("a b")
    (('__let__', 'let'), ('a__dash__b',), ())
    """
    escaped = escape(name)
    if escaped is None:
        return ()
    return (escaped, name) if name in RESERVED - _SYNTAX else (escaped,)
