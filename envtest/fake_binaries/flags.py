"""Parse command lines as Go's pflag does: ``--name=value``, ``--name value``, ``--switch``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from opsdk.errors import ConfigError

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class Flags(msgspec.Struct, frozen=True):
    """Parsed flags by name, without dashes; a repeated flag has several values."""

    values: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of a flag."""
        values = self.values.get(name)
        return values[-1] if values else default

    def each(self, name: str) -> tuple[str, ...]:
        """Return all values, one for each occurrence of the flag."""
        return tuple(self.values.get(name, ()))

    def listed(self, name: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Return all values of the flag; each occurrence can hold several, separated by commas."""
        values = self.values.get(name)
        return tuple(default) if values is None else tuple(w for text in values for w in text.split(",") if w)

    def number(self, name: str, default: int) -> int:
        """Return an integer; raises `ConfigError` for other text."""
        text = self.text(name, str(default))
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f'invalid argument "{text}" for "--{name}" flag: a whole number is wanted') from None

    def switch(self, name: str, *, default: bool) -> bool:
        """Return a boolean; ``--name`` alone is true."""
        text = self.text(name, str(default))
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise ConfigError(f'invalid argument "{text}" for "--{name}" flag: true or false is wanted')

    def unknown_flags(self, names: Collection[str]) -> list[str]:
        """Return the flags of the command line that are not in `names`."""
        return sorted(self.values.keys() - set(names))


def parse(arguments: Sequence[str], *, switches: Collection[str]) -> Flags:
    """Parse a command line. Raises `ConfigError` for an argument that is not a flag. `switches` take no value.

    >>> parse(["--port", "6443", "--fast", "--name=a", "--name=b"], switches={"fast"}).values
    {'port': ['6443'], 'fast': ['true'], 'name': ['a', 'b']}
    """
    values: dict[str, list[str]] = {}
    words = list(reversed(arguments))
    while words:
        word = words.pop()
        if not word.startswith("--") or len(word) == len("--"):
            raise ConfigError(f"unknown command {word!r}: there are flags only, such as --name=value")
        name, equals, value = word[2:].partition("=")
        if not equals:
            # An unknown flag may be a switch: the next flag is never its value.
            takes_next = name not in switches and words and not words[-1].startswith("--")
            value = words.pop() if takes_next else "true"
        values.setdefault(name.replace("_", "-"), []).append(value)
    return Flags(values)
