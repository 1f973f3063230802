"""The lexer of CEL.

Upstream: github.com/google/cel-go/parser/gen/CEL.g4.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import msgspec

from opsdk.cel.source import Issue


class TokenKind(Enum):
    """The kind of a token; the value is its name in messages."""

    END = "<EOF>"
    """The end of the text."""
    IDENTIFIER = "IDENTIFIER"
    """A name."""
    ESCAPED = "ESC_IDENTIFIER"
    """A field name in backticks."""
    INT = "NUM_INT"
    """An integer."""
    UINT = "NUM_UINT"
    """An integer with ``u``."""
    FLOAT = "NUM_FLOAT"
    """A number with a point or an exponent."""
    STRING = "STRING"
    """A string."""
    BYTES = "BYTES"
    """A string with ``b``."""
    SYMBOL = "SYMBOL"
    """An operator, a bracket, or one of the words ``in``, ``true``, ``false``, ``null``."""


class Token(msgspec.Struct, frozen=True):
    """A token with its offset."""

    kind: TokenKind
    text: str
    at: int

    def is_(self, *symbols: str) -> bool:
        """Report whether it is one of these symbols."""
        return self.kind is TokenKind.SYMBOL and self.text in symbols


_WORDS: Final = frozenset({"in", "true", "false", "null"})

_ESCAPE: Final = r"\\(?:[abfnrtv\"'`?\\]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_QUOTED: Final = rf"""
    [rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')
  | \"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"
  | '''(?:{_ESCAPE}|[^\\])*?'''
  | "(?:{_ESCAPE}|[^"\\\n\r])*"
  | '(?:{_ESCAPE}|[^'\\\n\r])*'
"""
_TOKEN: Final = re.compile(
    rf"""
      (?P<SPACE>[\t\ \r\n\f]+|//[^\n]*)
    | (?P<BYTES>[bB](?:{_QUOTED}))
    | (?P<STRING>{_QUOTED})
    | (?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<INT>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<ESCAPED>`[A-Za-z0-9_.\-/\ ]+`)
    | (?P<SYMBOL>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> tuple[list[Token], list[Issue]]:
    """Return the tokens, with one of kind `TokenKind.END` at the end, and the syntax issues.

    >>> [token.text for token in tokenize("a<=1")[0]]
    ['a', '<=', '1', '<EOF>']
    """
    tokens: list[Token] = []
    issues: list[Issue] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            opening = _OPEN.match(text, position)
            assert opening is not None
            # As in ANTLR's lexer, the message includes the character that breaks the token.
            wrong = text[position : opening.end() + 1]
            issues.append(Issue(position, f"Syntax error: token recognition error at: '{wrong}'"))
            position += len(wrong)
            continue
        name = match.lastgroup
        assert name is not None
        if name != "SPACE":
            tokens.append(Token(TokenKind.SYMBOL if match[0] in _WORDS else TokenKind[name], match[0], position))
        position = match.end()
    tokens.append(Token(TokenKind.END, TokenKind.END.value, len(text)))
    return tokens, issues


_OPEN: Final = re.compile(
    rf"""
      (["'])(?:{_ESCAPE}|(?!\1)[^\\\n\r])*
      (?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}|U[0-9a-fA-F]{{0,7}}|[0-3][0-7]?)?)?
    | `[A-Za-z0-9_.\-/\ ]*
    | [=&|]
    |
    """,
    re.VERBOSE,
)


# ------------------------------------------------------------------ literals
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "'": "'",
    "`": "`",
    "?": "?",
    "\\": "\\",
}
_ESCAPES: Final = re.compile(_ESCAPE)


def unquote(token: str) -> str:
    r"""Return the text of a string literal.

    Raises:
        ValueError: an escape that is not a code point.

    >>> unquote(r"'a\x41'"), unquote(r"r'\d'")
    ('aA', '\\d')
    """
    raw, body = _body(token)
    return body if raw else _ESCAPES.sub(lambda match: _char(match[0][1:]), body)


def unquote_bytes(token: str) -> bytes:
    r"""Return the bytes of a bytes literal, in which ``\x`` and octal escapes are bytes.

    >>> unquote_bytes(r"b'\xff\n'")
    b'\xff\n'

    Raises:
        ValueError: it has escapes for characters.
    """
    raw, body = _body(token[1:])
    if raw:
        return body.encode()
    pieces: list[bytes] = []
    end = 0
    for match in _ESCAPES.finditer(body):
        escape = match[0][1:]
        if escape[0] in "uU":
            raise ValueError(escape)
        pieces.append(body[end : match.start()].encode())
        is_byte = escape[0] in "xX01234567"
        pieces.append(bytes([_code(escape)]) if is_byte else _char(escape).encode())
        end = match.end()
    return b"".join([*pieces, body[end:].encode()])


def _body(token: str) -> tuple[bool, str]:
    raw = token[0] in "rR"
    quoted = token[1:] if raw else token
    size = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    return raw, quoted[size:-size]


def _code(escape: str) -> int:
    return int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)


def _char(escape: str) -> str:
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    code = _code(escape)
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise ValueError(f"\\{escape}")
    return chr(code)
