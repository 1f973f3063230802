r"""``columns.txt``: the printer columns of the served kinds. Pure.

A block for each kind: a line with its ``group/resource`` (several, if they share the columns), then an indented line
for each column, ``name | type:format wide | description``. The usual first column Name is left out. ``\n`` is a line
break; ``@name`` and ``@created`` stand for the descriptions of ``metadata.name`` and ``metadata.creationTimestamp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from envtest.data.columns import METADATA_DESCRIPTIONS
from tools.generate.column_facts import ColumnFacts, KindColumns

_SHARED = {("core", "Event"): ("events",)}
"""Kinds of other groups that have the same internal type."""
_MARKS = {description: mark for mark, description in METADATA_DESCRIPTIONS.items()}
_NAME = ColumnFacts(name="Name", type="string", format="name", description=METADATA_DESCRIPTIONS["@name"])


def render_columns(kinds: Iterable[KindColumns], rows: Iterable[Mapping[str, Any]]) -> str:
    """A block for each kind that one of `rows` serves; the rows are those of `tools.generate.resources`."""
    keys = _keys(rows)
    blocks = []
    for kind in kinds:
        groups = (kind.group, *_SHARED.get((kind.group, kind.kind), ()))
        if heads := [keys[group, kind.kind] for group in groups if (group, kind.kind) in keys]:
            blocks.append("\n".join((" ".join(heads), *_lines(kind.columns))))
    return "\n\n".join(blocks) + "\n"


def served_kinds(rows: Iterable[Mapping[str, Any]]) -> AbstractSet[tuple[str, str]]:
    """Folder of the internal types and kind of everything that `rows` serve."""
    return _keys(rows).keys()


def _keys(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Folder of the internal types and kind -> ``group/resource``; ``/subresource`` for the kind of a subresource."""
    keys: dict[tuple[str, str], str] = {}
    for row in rows:
        if "subresource" not in row:
            keys[_folder(row["group"]), row["kind"]] = f"{row['group']}/{row['resource']}"
        elif "kindGroup" in row:
            keys.setdefault((_folder(row["kindGroup"]), row["kind"]), f"/{row['subresource']}")
    return keys


def _folder(group: str) -> str:
    return group.partition(".")[0] or "core"


def _lines(columns: tuple[ColumnFacts, ...]) -> Iterator[str]:
    for column in columns[1:] if columns[0] == _NAME else columns:
        form = f":{column.format}" if column.format else ""
        wide = " wide" if column.priority else ""
        text = _MARKS.get(column.description, column.description.replace("\n", "\\n"))
        yield f"  {column.name} | {column.type}{form}{wide} | {text}".rstrip()
