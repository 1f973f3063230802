"""Strings that match a regular expression, for the part of RE2's syntax that definitions use. Pure.

The strings are proposals: the caller checks them with the schema's own validator. So the parser may be lenient, and a
pattern that it does not understand gives no proposals.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

MAX_STRING: Final = 4096
"""Characters of the longest proposed string."""
_MAX_DEPTH: Final = 50
_MAX_STEPS: Final = 20_000
"""Parts that one string visits: nested repetitions would visit billions."""
_PRINTABLE: Final = (
    string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_. /:!@#$%&*+=?~,;'\"()[]{}<>|^`\\"
)
_CLASSES: Final = {
    "d": string.digits,
    "w": string.ascii_lowercase + string.digits + "_" + string.ascii_uppercase,
    "s": " \t\n",
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_POSIX: Final = {
    "alpha": string.ascii_lowercase + string.ascii_uppercase,
    "digit": string.digits,
    "alnum": string.ascii_lowercase + string.digits + string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "xdigit": string.digits + "abcdefABCDEF",
    "space": " \t\n",
    "word": _CLASSES["w"],
    "punct": string.punctuation,
}


class _Characters(msgspec.Struct, frozen=True):
    """One character of several."""

    options: str


class _Sequence(msgspec.Struct, frozen=True):
    """Parts in a row."""

    parts: tuple[_Part, ...]


class _Alternatives(msgspec.Struct, frozen=True):
    """One part of several."""

    parts: tuple[_Part, ...]


class _Repetition(msgspec.Struct, frozen=True):
    """A part that repeats; without a most, any number of times."""

    part: _Part
    least: int
    most: int | None


_Part: TypeAlias = _Characters | _Sequence | _Alternatives | _Repetition


class _UnsupportedError(Exception):
    """The pattern uses syntax that the parser does not know, or one string of it is too long."""


def matching_strings(pattern: str, lengths: Sequence[int] = ()) -> Iterator[str]:
    """Yield strings that should match `pattern`: short ones first, each once.

    Args:
        pattern: a regular expression; anchors have no effect.
        lengths: lengths to aim at, such as those of ``minLength`` and ``maxLength``.

    >>> list(matching_strings("^(postgres|mysql):[0-9]+$"))[:3]
    ['postgres:0', 'mysql:1', 'postgres:2']
    >>> "aaaaa" in matching_strings("^[a-z]+$", [5])
    True
    """
    try:
        root = _Parser(pattern).parse()
    except (_UnsupportedError, IndexError, ValueError):  # the text ends too early, or a number does not parse
        return
    proposals: dict[str, None] = {}
    near = [length - less for length in lengths if length <= MAX_STRING for less in (2, 1, 0)]
    for extra in (0, 1, 2, *near):
        for choice in range(8 if extra == 0 else 2):
            try:
                text = _Renderer(max(extra, 0), choice).render(root)
            except _UnsupportedError:
                continue
            if text not in proposals:
                proposals[text] = None
                yield text


class _Renderer:
    """Writes one string of a pattern.

    Args:
        extra: repetitions beyond the least.
        choice: which of several alternatives and characters are used.
    """

    def __init__(self, extra: int, choice: int) -> None:
        self._extra = extra
        self._choice = choice
        self._steps = 0
        self._length = 0

    def render(self, part: _Part) -> str:
        """Return the string.

        Raises:
            _UnsupportedError: it is too long.
        """
        self._steps += 1
        if self._steps > _MAX_STEPS or self._length > MAX_STRING:
            raise _UnsupportedError
        match part:
            case _Characters(options):
                self._length += 1
                return options[self._choice % len(options)]
            case _Sequence(parts):
                return "".join(map(self.render, parts))
            case _Alternatives(parts):
                return self.render(parts[self._choice % len(parts)])
            case _Repetition(below, least, most):
                count = least + self._extra if most is None else min(most, least + self._extra)
                return "".join(self.render(below) for _ in range(count))


class _Parser:
    """Parses one pattern; each method reads from the position on."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._position = 0
        self._depth = 0

    def parse(self) -> _Part:
        """Return the whole pattern.

        Raises:
            _UnsupportedError: the syntax is not supported.
            IndexError: the pattern ends too early.
        """
        part = self._alternatives()
        if self._position < len(self._text):
            raise _UnsupportedError
        return part

    def _next(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        character = self._text[self._position]
        self._position += 1
        return character

    def _accept(self, text: str) -> bool:
        accepted = self._text.startswith(text, self._position)
        self._position += len(text) * accepted
        return accepted

    def _alternatives(self) -> _Part:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnsupportedError
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _Alternatives(tuple(parts))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            if self._next() in "^$":
                self._take()
            elif (atom := self._atom()) is not None:
                parts.append(self._repeated(atom))
        return _Sequence(tuple(parts))

    def _repeated(self, atom: _Part) -> _Part:
        while True:
            if self._accept("*"):
                bounds: tuple[int, int | None] = (0, None)
            elif self._accept("+"):
                bounds = (1, None)
            elif self._accept("?"):
                bounds = (0, 1)
            elif self._next() == "{" and (counted := self._counts()) is not None:
                bounds = counted
            else:
                return atom
            self._accept("?")
            atom = _Repetition(atom, *bounds)

    def _counts(self) -> tuple[int, int | None] | None:
        """Return the bounds in braces; None if the brace is a literal."""
        least, comma, most = self._text[self._position + 1 :].partition("}")[0].partition(",")
        if not (least.isdecimal() and (not most or most.isdecimal()) and len(least + most) < 10):
            return None
        self._position = self._text.index("}", self._position) + 1
        return int(least), int(most) if most else None if comma else int(least)

    def _atom(self) -> _Part | None:
        """Return the next part; None if it matches no character, such as a flag."""
        match self._take():
            case "(":
                return self._group()
            case "[":
                return _Characters(self._bracket())
            case ".":
                return _Characters(_PRINTABLE)
            case "\\":
                options = self._escape()
                return _Characters(options) if options else None
            case character:
                return _Characters(character)

    def _group(self) -> _Part | None:
        if self._accept("?"):
            has_name = self._accept("P<") or self._accept("<")
            end = self._text.index(">", self._position) + 1 if has_name else self._position
            self._position = end
            while not has_name and self._next() in tuple("imsU-"):
                self._take()
            if not has_name and self._accept(")"):
                return None
            if not has_name and not self._accept(":"):
                raise _UnsupportedError
        part = self._alternatives()
        if not self._accept(")"):
            raise _UnsupportedError
        return part

    def _escape(self) -> str:
        """Return the characters of an escape; an empty string for a position such as a word boundary."""
        character = self._take()
        if character in "AzbB":
            return ""
        if character in "pP":
            self._position = self._text.index("}", self._position) + 1 if self._next() == "{" else self._position + 1
            return string.ascii_lowercase if character == "p" else string.digits
        if character == "x":
            return self._code_point()
        if character.lower() in _CLASSES:
            members = _CLASSES[character.lower()]
            return members if character.islower() else _without(members)
        return _CONTROLS.get(character, character)

    def _code_point(self) -> str:
        if self._accept("{"):
            digits, _, _ = self._text[self._position :].partition("}")
            self._position += len(digits) + 1
        else:
            digits = self._take() + self._take()
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise _UnsupportedError from None

    def _bracket(self) -> str:
        """Return the characters of a class; those that read well are first."""
        negated = self._accept("^")
        members: list[str] = []
        first = True
        while first or self._next() != "]":
            first = False
            members.append(self._range())
        self._take()
        joined = "".join(dict.fromkeys("".join(members)))
        options = _without(joined) if negated else joined
        if not options:
            raise _UnsupportedError
        return "".join(sorted(options, key=lambda c: (c not in _CLASSES["w"], _PRINTABLE.find(c))))

    def _range(self) -> str:
        """Return one member of a class: a character, a range, an escape or a POSIX class."""
        if self._accept("[:"):
            name, _, _ = self._text[self._position :].partition(":]")
            self._position += len(name) + 2
            if name.lstrip("^") not in _POSIX:
                raise _UnsupportedError
            members = _POSIX[name.lstrip("^")]
            return _without(members) if name.startswith("^") else members
        start = self._escape() if self._accept("\\") else self._take()
        if len(start) != 1 or self._next() != "-" or self._text[self._position + 1] == "]":
            return start
        self._take()
        end = self._escape() if self._accept("\\") else self._take()
        if len(end) != 1:
            raise _UnsupportedError
        # A range such as all of Unicode has a million members; a few hundred are enough.
        return "".join(map(chr, range(ord(start), min(ord(end), ord(start) + 300) + 1)))


def _without(members: str) -> str:
    return "".join(character for character in _PRINTABLE if character not in members)
