"""Field properties that the published schemas lack: pointers, and fields without omitempty.

The table has a line for each type: its fields in the order of Go's encoder. Each field has its embedded struct, its
Go type if the schema lacks it, and a mark. Marks denote pointers, and fields that are written even if they are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from envtest.data.table import read_blocks
from envtest.data.versions import DEFAULT

PLAIN: Final = ""
"""Omitted if it is zero."""
POINTER: Final = "*"
"""Omitted if it is absent; a zero value is kept. Structs, lists and maps never have this mark."""
SHOWN: Final = "="
"""Always written; an absent field as the zero value of its type."""
NULL: Final = "?"
"""Always written; an absent field as null."""


@cache
def _lines(version: str) -> Mapping[str, str]:
    return read_blocks("fields", version)


def forms(name: str, version: str = DEFAULT) -> Mapping[str, str]:
    """Return the marks of a type's fields by name, in order; empty for an unknown type.

    >>> forms("io.k8s.api.batch.v1.JobStatus")["ready"], forms("io.k8s.api.batch.v1.JobStatus")["active"]
    ('*', '')
    """
    return {word.field: word.mark for word in _words(name, version)}


def go_types(name: str, version: str = DEFAULT) -> Mapping[str, str]:
    """Return the Go types of fields whose schema does not determine them.

    >>> go_types("io.k8s.api.core.v1.ServiceSpec")["ipFamilies"]
    '[]v1.IPFamily'
    """
    return {word.field: word.go_type for word in _words(name, version) if word.go_type}


def embedded(name: str, version: str = DEFAULT) -> Mapping[str, str]:
    """Return the embedded structs of fields, where Go's decoder names them in errors.

    >>> embedded("io.k8s.api.core.v1.Probe")["httpGet"]
    'ProbeHandler'
    """
    return {word.field: word.embedded for word in _words(name, version) if word.embedded}


class _FieldEntry(NamedTuple):
    """One field of the table: ``embedded/field:type`` and a mark."""

    embedded: str
    field: str
    go_type: str
    mark: str


def _words(name: str, version: str) -> Iterator[_FieldEntry]:
    for word in _lines(version).get(name, "").split(" ")[1:]:
        described = word.rstrip(POINTER + SHOWN + NULL)
        path, _, go_type = described.partition(":")
        above, _, field = path.rpartition("/")
        yield _FieldEntry(above, field, go_type, word[len(described) :])


@cache
def pointers(name: str, version: str = DEFAULT) -> frozenset[str]:
    """Return the pointer fields of a type, in which a zero value differs from an absent one."""
    return frozenset(field for field, mark in forms(name, version).items() if mark in (POINTER, NULL))
