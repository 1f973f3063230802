"""Error messages of Go's JSON scanner for invalid JSON. Pure.

The scanner stops at the first invalid byte and names the token that it was reading.

Upstream: sigs.k8s.io/json/internal/golang/encoding/json/scanner.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

MAX_DEPTH: Final = 10_000
_SPACE = b" \t\r\n"
_Step = Callable[[], Any]
"""One step of the scan. It returns the next step, or None at the end, so nesting uses no stack."""
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_END = "unexpected end of JSON input"


class _FaultError(Exception):
    """The scan found an error; the text is the message."""


def first_fault(raw: bytes) -> str | None:
    """Return Go's message for the first syntax error; None if the JSON is valid.

    >>> first_fault(b'{"a": nul}')
    "invalid character '}' in literal null (expecting 'l')"
    >>> first_fault(b'[1, 2') , first_fault(b'[1, 2]')
    ('unexpected end of JSON input', None)
    """
    try:
        _Scanner(raw).document()
    except _FaultError as fault:
        return str(fault)
    return None


def quote_byte(byte: int) -> str:
    """Quote one byte as Go's scanner does, also inside a multi-byte character."""
    char = chr(byte)
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\"}
    if char in escapes:
        return f"'{escapes[char]}'"
    return f"'{char}'" if char.isprintable() and byte < 0x80 else f"'\\x{byte:02x}'"


class _Scanner:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._open: list[int] = []

    def document(self) -> None:
        """Scan one value and the end of the document."""
        step: _Step | None = self._value
        while step is not None:
            step = step()
        self._skip()
        if self._at < len(self._raw):
            raise self._syntax_error("after top-level value")

    # -------------------------------------------------------------- steps
    def _value(self) -> _Step | None:
        """Read the begin of a value, and return the next step. Raises a fault with Go's words."""
        first = self._peek()
        if first in b"{[":
            self._open.append(first)
            if len(self._open) > MAX_DEPTH:
                raise _FaultError("exceeded max depth")
            self._at += 1
            if self._peek() == (ord("}") if first == ord("{") else ord("]")):
                return self._close
            return self._key if first == ord("{") else self._value
        if first == ord('"'):
            self._string()
        elif first in b"-0123456789":
            match = _NUMBER.match(self._raw, self._at)
            if match is None:
                self._at += 1
                self._byte()
                raise self._syntax_error("in numeric literal")
            self._at = match.end()
            rest = self._raw[self._at : self._at + 2]
            if rest[:1] == b"." and b"." not in match.group() and b"e" not in match.group().lower():
                self._at += 1
                self._byte()
                raise self._syntax_error("after decimal point in numeric literal")
            if rest[:1] in (b"e", b"E") and b"e" not in match.group().lower():
                self._at += 2 if rest[1:] in (b"+", b"-") else 1
                self._byte()
                raise self._syntax_error("in exponent of numeric literal")
        elif first in b"tfn":
            self._literal({ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}[first])
        else:
            raise self._syntax_error("looking for beginning of value")
        return self._after

    def _key(self) -> _Step:
        if self._peek() != ord('"'):
            raise self._syntax_error("looking for beginning of object key string")
        self._string()
        if self._peek() != ord(":"):
            raise self._syntax_error("after object key")
        self._at += 1
        return self._value

    def _after(self) -> _Step | None:
        """Scan the token after a value."""
        if not self._open:
            return None
        inside_object = self._open[-1] == ord("{")
        following = self._peek()
        if following == ord(","):
            self._at += 1
            return self._key if inside_object else self._value
        if following == (ord("}") if inside_object else ord("]")):
            return self._close
        raise self._syntax_error("after object key:value pair" if inside_object else "after array element")

    def _close(self) -> _Step | None:
        self._at += 1
        self._open.pop()
        return self._after

    # -------------------------------------------------------------- scalars
    def _string(self) -> None:
        """Read a string. Raises a fault with Go's words."""
        self._at += 1
        while True:
            byte = self._byte()
            if byte == ord('"'):
                self._at += 1
                return
            if byte == ord("\\"):
                self._at += 1
                escape = self._byte()
                if escape != ord("u"):
                    if escape not in b'"\\/bfnrt':
                        raise self._syntax_error("in string escape code")
                    self._at += 1
                else:
                    self._at += 1
                    for _ in range(4):
                        if self._byte() not in b"0123456789abcdefABCDEF":
                            raise self._syntax_error("in \\u hexadecimal character escape")
                        self._at += 1
            elif byte < 0x20:
                raise self._syntax_error("in string literal")
            else:
                self._at += 1

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self._byte() != expected:
                raise self._syntax_error(f"in literal {word.decode()} (expecting {quote_byte(expected)})")
            self._at += 1

    # -------------------------------------------------------------- bytes
    def _skip(self) -> None:
        while self._at < len(self._raw) and self._raw[self._at] in _SPACE:
            self._at += 1

    def _peek(self) -> int:
        self._skip()
        return self._byte()

    def _byte(self) -> int:
        if self._at >= len(self._raw):
            raise _FaultError(_END)
        return self._raw[self._at]

    def _syntax_error(self, where: str) -> _FaultError:
        return _FaultError(f"invalid character {quote_byte(self._raw[self._at])} {where}")
