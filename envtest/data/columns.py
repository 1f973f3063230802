"""The table columns of built-in kinds, as `kubectl get` prints them. Read at the first use.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from envtest.data.table import blocks, read_blocks
from envtest.data.versions import DEFAULT
from opsdk.apiserver.resources import TableColumn

METADATA_DESCRIPTIONS = {
    "@name": (
        "Name must be unique within a namespace. Is required when creating resources, although some resources may"
        " allow a client to request the generation of an appropriate name automatically. Name is primarily intended"
        " for creation idempotence and configuration definition. Cannot be updated. More info:"
        " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "@created": (
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is not"
        " guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It"
        " is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More"
        " info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
}
NAME = TableColumn(name="Name", format="name", description=METADATA_DESCRIPTIONS["@name"])
CREATED = TableColumn(name="Created At", type="date", description=METADATA_DESCRIPTIONS["@created"])
AGE = TableColumn(name="Age", description=METADATA_DESCRIPTIONS["@created"])


def parse(text: str) -> dict[str, tuple[TableColumn, ...]]:
    r"""Parse columns; each block of lines follows the ``group/resource`` that it belongs to.

    >>> [c.name for c in parse("apps/things g.io/things\n  Age | string | @created\n")["g.io/things"]]
    ['Name', 'Age']
    """
    return _parse(blocks(text))


def _parse(read: Mapping[str, str]) -> dict[str, tuple[TableColumn, ...]]:
    tables: dict[str, tuple[TableColumn, ...]] = {}
    for block in read.values():
        head, *lines = block.splitlines()
        columns = tuple(map(_column, lines))
        if all(column.name != "Name" for column in columns):
            columns = (NAME, *columns)
        tables.update(dict.fromkeys(head.split(), columns))
    return tables


def _column(line: str) -> TableColumn:
    name, kind, text = (part.strip() for part in line.split("|", 2))
    kind, _, wide = kind.partition(" ")
    kind, _, form = kind.partition(":")
    text = METADATA_DESCRIPTIONS.get(text, text.replace("\\n", "\n"))
    return TableColumn(name=name, type=kind, format=form, description=text, priority=1 if wide else 0)


@cache
def _all(version: str) -> dict[str, tuple[TableColumn, ...]]:
    return _parse(read_blocks("columns", version))


def columns_of(key: str, version: str = DEFAULT) -> tuple[TableColumn, ...]:
    """Return the columns of ``group/resource`` in a version of Kubernetes."""
    return _all(version)[key]


def has_columns(key: str, version: str) -> bool:
    """Whether ``group/resource`` has columns in a version of Kubernetes."""
    return key in _all(version)
