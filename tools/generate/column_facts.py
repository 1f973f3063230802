"""The facts about printer columns, and the text form in which ``sources/`` keeps them: a JSON object a line. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from opsdk.structured_merge.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A column definition of ``meta.k8s.io/v1`` Table, as the API server sends it."""

    name: str
    type: str
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class KindColumns:
    """The columns of a kind. The group is the folder of its internal types, such as ``core`` or ``rbac``."""

    group: str
    kind: str
    columns: tuple[ColumnFacts, ...]


def render_columns_facts(kinds: Iterable[KindColumns]) -> str:
    """The text form; empty formats and descriptions and zero priorities are left out."""
    return "".join(f"{json.dumps(_tree(kind), ensure_ascii=False)}\n" for kind in kinds)


def parse_columns_facts(text: str) -> Iterator[KindColumns]:
    """The facts in a text form.

    >>> [kind] = parse_columns_facts('{"group": "core", "kind": "Pod", "columns": [{"name": "Age", "type": "string"}]}')
    >>> kind.columns[0].priority
    0
    """
    for line in text.splitlines():
        tree = json.loads(line)
        yield KindColumns(tree["group"], tree["kind"], tuple(ColumnFacts(**column) for column in tree["columns"]))


def _tree(kind: KindColumns) -> JsonObject:
    columns = [{key: value for key, value in asdict(column).items() if value} for column in kind.columns]
    return {"group": kind.group, "kind": kind.kind, "columns": columns}
