"""The part of YAML that tools write into kubeconfigs: block mappings and lists of plain scalars.

Importing PyYAML takes 35 ms, a tenth of the start of an operator. What is not surely plain is left to PyYAML.
"""

from __future__ import annotations

import re

from opsdk.structured_merge.value import JsonObject, JsonValue

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_./-]*):(?: +(.*))?")
_SCALAR = re.compile(r"[A-Za-z/][A-Za-z0-9_./@=+-]*(?::[A-Za-z0-9_./@=+-]+)*")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"\\]*)\"")
_WORDS = {"null": None, "true": True, "false": False}
# Words that YAML 1.1 reads as booleans or null, in several spellings: PyYAML knows which.
_SPECIAL = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class _NotPlainError(Exception):
    """PyYAML must read the text."""


def parse_plain_yaml(text: str) -> JsonObject | None:
    r"""Return a mapping as PyYAML reads it; None if the text is not plain, or not YAML.

    >>> parse_plain_yaml("users:\n- name: jane\n  user:\n    token: abc\n")
    {'users': [{'name': 'jane', 'user': {'token': 'abc'}}]}
    >>> parse_plain_yaml("token: |\n  abc\n") is None
    True
    """
    if not text.isascii() or not text.replace("\n", "").isprintable():
        return None
    lines = [(len(line) - len(line.lstrip(" ")), line.strip(" ")) for line in text.split("\n")]
    lines = [(indent, content) for indent, content in lines if content and not content.startswith("#")]
    if lines and lines[0] == (0, "---"):
        del lines[0]
    lines.reverse()
    try:
        result = _mapping(lines, 0)
    except (_NotPlainError, RecursionError):
        return None
    return None if lines else result


def _mapping(lines: list[tuple[int, str]], indent: int) -> JsonObject:
    """Take the lines of a mapping from the end of `lines`, which has the next line last."""
    mapping: JsonObject = {}
    while lines and lines[-1][0] == indent and not lines[-1][1].startswith("-"):
        match = _KEY.fullmatch(lines.pop()[1])
        if match is None or match[1] in mapping or match[1].lower() in _SPECIAL:
            raise _NotPlainError
        mapping[match[1]] = _block(lines, indent) if match[2] is None else _scalar(match[2])
    if not mapping:
        raise _NotPlainError
    return mapping


def _block(lines: list[tuple[int, str]], indent: int) -> JsonValue:
    """Take what is below a key with this indentation."""
    if not lines:
        return None
    inner, content = lines[-1]
    if content.startswith("-") and inner >= indent:
        return _sequence(lines, inner)
    return _mapping(lines, inner) if inner > indent else None


def _sequence(lines: list[tuple[int, str]], indent: int) -> list[JsonValue]:
    sequence: list[JsonValue] = []
    while lines and lines[-1][0] == indent and lines[-1][1].startswith("-"):
        item = lines.pop()[1]
        rest = item[1:].lstrip(" ")
        if not item.startswith("- ") or rest.startswith("-"):
            raise _NotPlainError
        if _KEY.fullmatch(rest):
            inner = indent + len(item) - len(rest)
            lines.append((inner, rest))
            sequence.append(_mapping(lines, inner))
        else:
            sequence.append(_scalar(rest))
    return sequence


def _scalar(text: str) -> JsonValue:
    if text in _WORDS:
        return _WORDS[text]
    if text in {"{}", "[]"}:
        return {} if text == "{}" else []
    if _SCALAR.fullmatch(text) and text.lower() not in _SPECIAL:
        return text
    if (match := _QUOTED.fullmatch(text)) is not None:
        return match[1] or match[2] or ""
    raise _NotPlainError
