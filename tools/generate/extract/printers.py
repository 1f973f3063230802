"""The printer columns of the built-in kinds, as ``pkg/printers/internalversion/printers.go`` declares them.

A description is either a text, or a field's description from ``types_swagger_doc_generated.go`` of the field's package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tools.generate.column_facts import ColumnFacts, KindColumns
from tools.generate.extract.go_source import GoFile, parse_go
from tools.generate.extract.go_structs import STAGING

_PRINTERS = "pkg/printers/internalversion/printers.go"
_AGGREGATOR = STAGING / "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go"
_INTERNAL = "k8s.io/kubernetes/pkg/apis/"
_STRING = r'"(?:[^"\\]|\\.)*"'
_LIST = re.compile(r"^\t(\w+) (?::=|=) (?:append\(\w+, )?\[\]metav1\.TableColumnDefinition\{$")
_HANDLER = re.compile(r"^\t(?:_ = )?h\.TableHandler\((\w+), (\w+)\)$")
_FUNCTION = re.compile(r"^func (print\w+)\(\w+ \*(\w+)\.(\w+), ", re.MULTILINE)
_COLUMN = re.compile(
    rf'^\s*\{{Name: (?P<name>{_STRING}), Type: "(?P<type>\w+)"(?P<rest>(?:, (?:Priority: \d+|Format: "\w+"))*)'
    rf", Description: (?P<description>.*)\}},$"
)
_DOC = re.compile(r'^(?:(\w+)\.(\w+)\{\}(?:\.(\w+))?\.SwaggerDoc\(\)|swaggerMetadataDescriptions)\["(\w+)"\]$')
_DOC_MAP = re.compile(r"^var map_(\w+) = map\[string\]string\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_DOC_LINE = re.compile(rf"^\t({_STRING}):\s+({_STRING}),$", re.MULTILINE)

Describe = Callable[[str], str]


def read_columns(checkout: Path) -> Iterator[KindColumns]:
    """The columns of each kind: those of printers.go in its order, then those of APIService."""
    yield from parse_printers((checkout / _PRINTERS).read_text(), lambda file: _describer(checkout, file))
    text = (checkout / _AGGREGATOR).read_text()
    describe = _describer(checkout, parse_go(text))
    columns = tuple(_column(match, describe) for line in text.splitlines() if (match := _COLUMN.match(line)))
    yield KindColumns("apiregistration", "APIService", columns)


def parse_printers(text: str, describer: Callable[[GoFile], Describe]) -> Iterator[KindColumns]:
    """The columns of each kind in the text of printers.go; `describer` resolves its references to descriptions."""
    file = parse_go(text)
    describe = describer(file)
    kinds = {name: (alias, kind) for name, alias, kind in _FUNCTION.findall(text)}
    lists: dict[str, list[ColumnFacts]] = {}
    current: list[ColumnFacts] = []
    for line in text.splitlines():
        if match := _LIST.match(line):
            current = lists.setdefault(match[1], [])
        elif match := _COLUMN.match(line):
            current.append(_column(match, describe))
        elif match := _HANDLER.match(line):
            alias, kind = kinds[match[2]]
            path = file.imports[alias]
            if path.startswith(_INTERNAL):
                yield KindColumns(path.removeprefix(_INTERNAL), kind, tuple(lists[match[1]]))


def _column(match: re.Match[str], describe: Describe) -> ColumnFacts:
    rest = dict(part.split(": ") for part in match["rest"].removeprefix(", ").split(", ") if part)
    return ColumnFacts(
        name=json.loads(match["name"]),
        type=match["type"],
        format=json.loads(rest.get("Format", '""')),
        priority=int(rest.get("Priority", "0")),
        description=describe(match["description"]),
    )


def _describer(checkout: Path, file: GoFile) -> Describe:
    """Resolves the expression of a description, as a file with these imports writes it."""

    @cache
    def docs(path: str) -> Mapping[str, Mapping[str, str]]:
        return parse_docs((checkout / STAGING / path / "types_swagger_doc_generated.go").read_text())

    @cache
    def types(path: str) -> GoFile:
        return parse_go((checkout / STAGING / path / "types.go").read_text())

    def describe(expression: str) -> str:
        if expression.startswith('"'):
            return str(json.loads(expression))
        match = _DOC.match(expression)
        if not match:
            raise ValueError(f"this description is of no known form: {expression}")
        alias, kind, field, key = match[1] or "metav1", match[2] or "ObjectMeta", match[3], match[4]
        path = file.imports[alias]
        if field:
            kind = next(part.type for part in types(path).structs[kind] if part.name == field)
        return docs(path).get(kind, {}).get(key, "")

    return describe


def parse_docs(text: str) -> dict[str, dict[str, str]]:
    """Type -> name of the field in JSON -> description, in the text of types_swagger_doc_generated.go."""
    return {
        name: {json.loads(key): json.loads(value) for key, value in _DOC_LINE.findall(body)}
        for name, body in _DOC_MAP.findall(text)
    }
