"""Texts of other programs inside of queries and of templates of annotations.

Upstream: github.com/prometheus/prometheus/promql/parser/lex.go and template/template.go (v2.42)
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

SELECTOR: Final = "@"
"""Stands for the labels of the operator in a query, as in ``up{@}``."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


def quoted(text: str) -> str:
    r"""Return a text as a string of a query.

    >>> print(quoted('a"b'))
    "a\"b"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else _escaped(c) for c in escaped) + '"'


def _escaped(char: str) -> str:
    number = ord(char)
    if 0xD800 <= number <= 0xDFFF:  # half a character, as in a file name that is not UTF-8
        return "\\ufffd"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def template_text(text: str) -> str:
    """Return a text that a template of an annotation or label shows as it is, in one line.

    >>> template_text("a {{ b }}")
    'a {{"{{"}} b }}'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.replace("{{", '{{"{{"}}')


def object_name(text: str) -> str:
    """Return a text as the name of a Kubernetes object: itself, or if it is none, a name with its hash.

    >>> object_name("website"), object_name("My Website")
    ('website', 'my-website-ee8c29be')
    """
    if _NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()[:40]).strip("-")
    return f"{readable}-{digest}" if readable else f"operator-{digest}"
