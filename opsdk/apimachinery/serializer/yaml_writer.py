"""The writer of YAML: what it writes is read equal by YAML 1.1, YAML 1.2 and Go's YAML. Pure.

It writes text at once. An emitter, with libyaml too, needs an event for each value, which takes four times as long, and
35 ms to import. So the bytes are the same with and without libyaml.

Upstream: sigs.k8s.io/yaml/goyaml.v2/encode.go, emitterc.go
Deviates: long lines are not folded. Text is in double quotes where goyaml's block would need an indentation indicator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from opsdk.aio.large_work import sort_in_parts
from opsdk.errors import EncodeError
from opsdk.structured_merge.value import JsonValue

_ODD: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff\ufeff\ufffe\uffff"
)
"""Characters that are escaped: controls, line breaks that a parser normalizes, spaces, marks that change the order."""
_AMBIGUOUS: Final = r"""(?:
    |~|=|<<|[yn]|yes|no|true|false|on|off|null
    |[-+]?_*(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:e[-+_]*+[0-9_]*+)?
    |[-+]?_*0_*(?:b[-+_01]+|o[-+_0-7]+|x[0-9a-f_]+)
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    |[-+]?\.(?:inf|nan)
    |[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[t\ ].*+)?
)\Z"""
"""Strings that are another type without quotes, by YAML 1.1, the core schema of YAML 1.2, or goyaml v2 and v3."""
_PLAIN: Final = re.compile(
    rf"""(?!(?i:{_AMBIGUOUS}))(?!---|\.\.\.|[-?:](?:\ |\Z)|[\ ,\[\]{{}}\#&*!|>'"%@`])
    (?:[^\ \t\n:{_ODD}]++|:(?!\ |\Z)|\ ++(?!\#|\Z))*+\Z""",
    re.VERBOSE,
)
_OTHER_TYPE: Final = re.compile(f"(?i:{_AMBIGUOUS})", re.VERBOSE)
_ONE_LINE: Final = re.compile(rf"[^\t\n{_ODD}]*\Z")
_LINES: Final = re.compile(rf"(?=[^ \t\n])[^{_ODD}]*\Z")
_SPACE_AT_END: Final = re.compile(r"[ \t](?:\n|\Z)")
_ESCAPED: Final = re.compile(rf'[\\"\t\n{_ODD}]')
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_JSON_TYPES: Final = (str, dict, list, int, float, type(None))
_LONGEST_KEY: Final = 128
"""A parser takes a key without ``?`` up to 1,024 characters; emitters stop at this many."""


def write_documents(values: Iterable[object], *, sort_keys: bool = True) -> str:
    """Return a stream of documents. Arguments and errors are those of `write_yaml`."""
    return "---\n".join(write_yaml(value, sort_keys=sort_keys) for value in values)


def write_yaml(value: object, *, sort_keys: bool = True, null: str = "null") -> str:
    """Return a document, with a newline at its end. Shared values are written in full, without aliases.

    Args:
        value: what `msgspec.json.encode` takes. Numbers that are not finite are null, as in JSON.
        sort_keys: equal values have equal bytes; otherwise keys keep their order.
        null: how None is written; an empty value is null too.

    Raises:
        EncodeError: a part of the value has no JSON form.
    """
    writer = _Writer(sort_keys=sort_keys, null=null)
    writer.write(value, "", "")
    return "".join(writer.lines)


class _Writer:
    """Writes lines of one document."""

    def __init__(self, *, sort_keys: bool, null: str) -> None:
        self.lines: list[str] = []
        self._sort_keys = sort_keys
        self._null = null
        self._keys: dict[str, str] = {}

    def write(self, value: Any, indent: str, lead: str) -> None:
        """Write a value.

        Args:
            value: any value.
            indent: of the lines below the first one.
            lead: what stands before the value on its first line.
        """
        if isinstance(value, str):
            self.lines.append(lead + (value if _PLAIN.match(value) else _quoted(value, indent or "  ")) + "\n")
        elif isinstance(value, dict):
            self._write_mapping(value, indent, lead)
        elif isinstance(value, list):
            self._write_list(value, indent, lead)
        elif value is None:
            self.lines.append(f"{lead}{self._null}".rstrip(" ") + "\n")
        elif isinstance(value, bool):
            self.lines.append(lead + ("true\n" if value else "false\n"))
        elif type(value) is int:
            self.lines.append(f"{lead}{value}\n")
        elif type(value) is float and value - value == 0:  # finite
            self.lines.append(f"{lead}{_float(value)}\n")
        else:
            self.write(_as_json(value), indent, lead)

    def _write_mapping(self, mapping: Mapping[str, Any], indent: str, lead: str) -> None:
        if not mapping:
            self.lines.append(lead + "{}\n")
            return
        for name in sort_in_parts(mapping, str) if self._sort_keys else mapping:
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = _key(name)
            value = mapping[name]
            if not isinstance(value, _JSON_TYPES):
                value = _as_json(value)  # it may be a mapping, which begins on the next line
            if len(key) > _LONGEST_KEY:
                self.lines.append(f"{lead}? {key}\n")
                self.write(value, indent + "  ", indent + ": ")
            elif value and isinstance(value, dict | list):
                self.lines.append(f"{lead}{key}:\n")
                inner = indent + "  " if isinstance(value, dict) else indent
                self.write(value, inner, inner)
            else:
                self.write(value, indent + "  ", f"{lead}{key}: ")
            lead = indent

    def _write_list(self, values: list[Any], indent: str, lead: str) -> None:
        if not values:
            self.lines.append(lead + "[]\n")
            return
        for value in values:
            self.write(value, indent + "  ", lead + "- ")
            lead = indent


def _as_json(value: object) -> JsonValue:
    """Return a part that is encoded already, or has another type, as a JSON value."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:  # ValueError: a msgspec.Raw without JSON
        raise EncodeError(f"a {type(value).__name__} cannot be written as YAML: {error}") from error


def _float(number: float) -> str:
    """Return a float that YAML 1.1 reads as one: its exponents need a point.

    >>> _float(1e20), _float(1.5), _float(-2e-7)
    ('1.0e+20', '1.5', '-2.0e-07')
    """
    text = repr(number)
    return text if "." in text else text.replace("e", ".0e")


def _key(name: object) -> str:
    """Return a key on one line. Keys of other types are written as their JSON key."""
    text: str = name if isinstance(name, str) else next(iter(_as_json({name: None})))
    if _PLAIN.match(text):
        return text
    return _escaped(text) if "\n" in text else _quoted(text, "")


def _quoted(text: str, indent: str) -> str:
    """Return text that cannot be plain, without the newline at its end: in quotes, or as a block of lines."""
    if "\n" in text and indent and _LINES.match(text) and not _SPACE_AT_END.search(text):
        chomping = "-" if text[-1] != "\n" else "+" if text[-2] == "\n" else ""
        lines = text.removesuffix("\n").split("\n")
        return "\n".join([f"|{chomping}", *(indent + line if line else "" for line in lines)])
    if _OTHER_TYPE.match(text) or not _ONE_LINE.match(text):
        return _escaped(text)
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if "\ud800" <= char <= "\udfff":
        return "\ufffd"  # Go's replacement: half a character has no UTF-8
    return _ESCAPES.get(char) or f"\\u{ord(char):04x}"
