"""The few parts of Go's syntax that the facts stand in. Pure: text in, declarations out.

The files are formatted by gofmt. That lets one line stand for one field, and a lone brace for the end of a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_IMPORT = re.compile(r'^\s*(?:import )?(?:(?P<alias>\w+) )?"(?P<path>[\w./-]+)"\s*(?://.*)?$')
_NAMED = re.compile(r"^type (?P<name>\w+) (?P<type>(?!struct\b|interface\b|func\b|=)[\w.\[\]*]+)\s*(?://.*)?$")
_STRUCT = re.compile(r"^type (?P<name>\w+) struct \{$")
_CONSTANT = re.compile(
    r'^\t?(?:const )?(?P<name>\w+)(?:\s+(?P<type>\w+))?\s+= (?:(?P<cast>\w+)\()?(?P<value>"[^"]*"|\w+\.\w+)\)?\s*(?://.*)?$'
)
_DEFAULT = re.compile(r"^\t// \+default=(?P<value>.+)$")
_GATE = re.compile(r"^\t// \+featureGate=(?P<value>\w+)$")
_FIELD = re.compile(r'^\t(?:(?P<name>\w+)\s+)?(?P<type>[\w.\[\]*]+)\s+`(?:[^`]*\s)?json:"(?P<json>[^"]*)"[^`]*`')


@dataclass(frozen=True, slots=True)
class GoField:
    """A field of a struct: its Go name (empty if embedded), its type as written, its ``json`` tag, and its default."""

    name: str
    type: str
    json: str
    default: str = ""
    """The text after ``+default=``."""
    gate: str = ""
    """The text after ``+featureGate=``."""


@dataclass(frozen=True, slots=True)
class GoFile:
    """The declarations of one file."""

    imports: Mapping[str, str]
    """Local name of a package -> import path."""
    named: Mapping[str, str]
    """Types that are not structs -> the type that each stands for."""
    structs: Mapping[str, tuple[GoField, ...]]
    enums: frozenset[str]
    """Types with ``+enum``."""
    constants: Mapping[str, tuple[str, str]]
    """Text constants: the type, and the literal or the qualified constant that each stands for."""


def parse_go(text: str) -> GoFile:
    r"""The declarations of a file that gofmt has formatted.

    >>> file = parse_go('type Phase string\n\ntype Status struct {\n\tPhase Phase `json:"phase,omitempty"`\n}\n')
    >>> file.named, file.structs["Status"]
    ({'Phase': 'string'}, (GoField(name='Phase', type='Phase', json='phase,omitempty', default='', gate=''),))
    """
    lines = _BLOCK_COMMENT.sub("", text).splitlines()
    named = {match["name"]: match["type"] for line in lines if (match := _NAMED.match(line))}
    found = (match for line in lines if (match := _CONSTANT.match(line)))
    constants = {m["name"]: (kind, m["value"]) for m in found if (kind := m["type"] or m["cast"])}
    return GoFile(dict(_imports(lines)), named, dict(_structs(lines)), frozenset(_enums(lines)), constants)


def package_name(path: str) -> str:
    """The name by which files refer to a package that they import without an alias.

    >>> package_name("k8s.io/api/core/v1"), package_name("k8s.io/apimachinery/pkg/types")
    ('v1', 'types')
    """
    return path.rpartition("/")[2]


def _imports(lines: list[str]) -> Iterator[tuple[str, str]]:
    inside = False
    for line in lines:
        inside = (inside or line == "import (") and line != ")"
        if (inside or line.startswith("import ")) and (match := _IMPORT.match(line)):
            yield match["alias"] or package_name(match["path"]), match["path"]


def _enums(lines: list[str]) -> Iterator[str]:
    """Yield the types whose comment has ``+enum``."""
    marked = False
    for line in lines:
        if line.startswith("//"):
            marked = marked or line == "// +enum"
            continue
        if marked and (match := _NAMED.match(line)):
            yield match["name"]
        marked = False


def _structs(lines: list[str]) -> Iterator[tuple[str, tuple[GoField, ...]]]:
    name = default = gate = ""
    fields: list[GoField] = []
    for line in lines:
        if match := _STRUCT.match(line):
            name, fields = match["name"], []
        elif line == "}" and name:
            yield name, tuple(fields)
            name = ""
        elif match := _DEFAULT.match(line):
            default = match["value"]
        elif match := _GATE.match(line):
            gate = match["value"]
        elif name and (match := _FIELD.match(line)):
            fields.append(GoField(match["name"] or "", match["type"], match["json"], default, gate))
            default = gate = ""
