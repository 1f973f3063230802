"""Renders the templates of a Helm chart as ``helm template`` does, for the expressions that opsdk's charts have.

Upstream: text/template of Go, and the functions of sprig and Helm: quote, join, int, toYaml, nindent.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

_ACTION = re.compile(r"{{(-?)\s*(.*?)\s*(-?)}}", re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[()|]|[^\s()|]+')
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "gt": lambda one, other: one > other,
    "int": int,
    "join": lambda separator, items: separator.join(map(str, items)),
    "nindent": lambda width, text: "\n" + textwrap.indent(text, " " * width),
    "quote": lambda value: json.dumps(str(value)),
    "toYaml": lambda value: yaml.safe_dump(value).rstrip("\n"),
}


@dataclass
class Block:
    """A part of a template: text, an expression, or ``if``, ``with`` and ``range`` with their bodies."""

    kind: str
    text: str = ""
    body: list[Block] = field(default_factory=list)
    other: list[Block] = field(default_factory=list)


def render(template: str, values: Mapping[str, Any], namespace: str) -> str:
    """Return the text of a template. Raises for an expression that is not known here."""
    root = {"Values": values, "Release": {"Namespace": namespace}}
    parts = list(_tokens(template))
    blocks, rest = _parse(parts)
    assert not rest, f"{rest[0]} ends no block"
    return "".join(_rendered(block, root, root) for block in blocks)


def _tokens(template: str) -> Iterator[tuple[str, str]]:
    """Yield texts and actions; a dash at a brace trims the white space beside it."""
    place, trim = 0, False
    for match in _ACTION.finditer(template):
        text = template[place : match.start()]
        text = text.lstrip() if trim else text
        yield "text", text.rstrip() if match[1] else text
        yield "action", match[2]
        place, trim = match.end(), bool(match[3])
    yield "text", template[place:].lstrip() if trim else template[place:]


def _parse(tokens: list[tuple[str, str]]) -> tuple[list[Block], list[tuple[str, str]]]:
    """Return the blocks up to an ``else`` or ``end``, and the tokens from there."""
    blocks: list[Block] = []
    while tokens:
        (kind, text), rest = tokens[0], tokens[1:]
        word = text.partition(" ")[0] if kind == "action" else ""
        if word in ("else", "end"):
            return blocks, tokens
        if word in ("if", "with", "range"):
            body, rest = _parse(rest)
            other: list[Block] = []
            if rest[0][1] == "else":
                other, rest = _parse(rest[1:])
            assert rest[0][1] == "end", f"{text} has no end"
            blocks.append(Block(word, text.partition(" ")[2], body, other))
            tokens = rest[1:]
        else:
            blocks.append(Block(kind, text))
            tokens = rest
    return blocks, []


def _rendered(block: Block, dot: Any, root: Any) -> str:
    if block.kind == "text":
        return block.text
    value = _pipeline(_WORD.findall(block.text), dot, root)
    if block.kind == "action":
        return str(value)
    dots = [dot] if block.kind == "if" else [value]
    if block.kind == "range":
        dots = list(value or ())
    chosen = block.body if value else block.other
    return "".join(_rendered(each, own, root) for own in (dots if value else [dot]) for each in chosen)


def _pipeline(words: Sequence[str], dot: Any, root: Any) -> Any:
    """Return the value of commands, each of which gets the previous value as its last argument."""
    value: tuple[Any, ...] = ()
    for command in _split(words):
        value = (_command(command, dot, root, value),)
    return value[0]


def _split(words: Sequence[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "|" and not depth:
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _command(words: Sequence[str], dot: Any, root: Any, piped: tuple[Any, ...]) -> Any:
    name, arguments, rest = words[0], [], list(words[1:])
    while rest:
        if rest[0] == "(":
            end = rest.index(")")
            arguments.append(_pipeline(rest[1:end], dot, root))
            rest = rest[end + 1 :]
        else:
            arguments.append(_operand(rest.pop(0), dot, root))
    return FUNCTIONS[name](*arguments, *piped) if name in FUNCTIONS else _operand(name, dot, root)


def _operand(word: str, dot: Any, root: Any) -> Any:
    if word.startswith('"'):
        return json.loads(word)
    if re.fullmatch(r"\d+", word):
        return int(word)
    assert word.startswith((".", "$")), f"unknown function {word}"
    value = root if word.startswith("$") else dot
    for name in word.lstrip("$").split("."):
        value = value[name] if name else value
    return value
