r"""Regular expressions of schemas: RE2's syntax, run by Python's engine.

RE2 and Python mostly agree. Where they do not, the pattern is rewritten: ``$`` is the very end and not the line before
it, ``\z`` and ``\Q..\E``, POSIX and Unicode classes; and what RE2 refuses, such as back references, is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from opsdk.errors import UsageError

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_TOKEN: Final = re.compile(
    r"""
      \\Q(?P<literal>.*?)(?:\\E|\Z)
    | \\[pP](?:\{(?P<long>\^?\w+)\}|(?P<short>\w))
    | (?P<escape>\\.)
    | \[:(?P<not>\^?)(?P<posix>\w+):\]
    | (?P<refused>\(\?(?:=|!|<=|<!|\#|\(|P=|P>))
    | \(\?<(?P<name>\w+)>
    | (?P<char>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_UNICODE: Final = {
    "L": "^\\W\\d_",
    "Lu": "A-Z\\u00C0-\\u00D6\\u00D8-\\u00DE",
    "Ll": "a-z\\u00DF-\\u00F6\\u00F8-\\u00FF",
    "N": "\\d",
    "Nd": "\\d",
    "Z": "\\s",
    "Zs": " \\u00A0",
}


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`, which is how schemas match: anywhere unless anchored.

    Raises:
        UsageError: it is no regular expression of RE2; the message says where.
    """
    pieces: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        if token["refused"]:
            raise UsageError(f"invalid or unsupported Perl syntax: `{token['refused']}`")
        text = _translate(token, in_class=in_class)
        if text == "[" and not in_class:
            in_class = True
        elif text == "]" and in_class and not _opens(pieces):
            in_class = False
        pieces.append(text)
    flags = 0 if r"\p" in pattern or r"\P" in pattern else re.ASCII
    try:
        return re.compile("".join(pieces), flags)
    except (re.error, OverflowError) as error:
        raise UsageError(f"error parsing regexp: {error}") from error


def _opens(pieces: list[str]) -> bool:
    """Whether a ``]`` now would be the first character of its class, and so a literal."""
    return pieces[-1:] == ["["] or pieces[-2:] == ["[", "^"]


def _translate(token: re.Match[str], *, in_class: bool) -> str:
    if token["literal"] is not None:
        return re.escape(token["literal"])
    if token["escape"]:
        return _escape(token["escape"])
    if token["posix"]:
        return _class(_POSIX.get(token["posix"], ""), negated=bool(token["not"]), in_class=in_class)
    if token["name"]:
        return f"(?P<{token['name']}>"
    unicode_class = token["long"] or token["short"]
    if unicode_class:
        negated = token[0].startswith("\\P") != unicode_class.startswith("^")
        return _class(_UNICODE.get(unicode_class.lstrip("^"), "\\w"), negated=negated, in_class=in_class)
    char = token["char"]
    if in_class:
        return "\\[" if char == "[" else str(char)
    return "\\Z" if char == "$" else str(char)


def _escape(escape: str) -> str:
    if escape == "\\z":
        return "\\Z"
    if escape == "\\Z" or (escape[1].isdigit() and escape[1] != "0"):
        raise UsageError(f"invalid escape sequence: `{escape}`")
    return escape


def _class(content: str, *, negated: bool, in_class: bool) -> str:
    if not content:
        raise UsageError("invalid character class range")
    if in_class and not negated and not content.startswith("^"):
        return content
    if in_class:
        raise UsageError("negated character classes inside a class are not supported")
    inverse = negated != content.startswith("^")
    return f"[{'^' if inverse else ''}{content.lstrip('^')}]"
