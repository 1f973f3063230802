"""``fields.txt``: how Go writes each field of the served types. Pure.

A line for each type: its fields in Go's order. A field is ``embedded/name:type`` and a mark, of which only the name is
always there. ``embedded`` is the path of embedded structs that the field is in. ``type`` is the Go type, if the schema
cannot tell it: a named string, list or map. The mark is one of those of `envtest.data.fields`:

- none: the field is omitted if it is zero
- ``*``: the field is a pointer to a scalar; it is omitted if it is nil, and a zero means something
- ``=``: the field is always written, with the zero of its type
- ``?``: the field is always written, as null if it is nil
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envtest.data.fields import NULL, PLAIN, POINTER, SHOWN
from tools.generate.struct_facts import Packages, StructField, go_type_of, local_types

Schemas = Mapping[str, Mapping[str, Any]]

_NULL_STRUCTS = frozenset({"Time", "MicroTime", "RawExtension", "FieldsV1", "JSON"})
"""Structs whose own encoder writes null for their zero."""
_POINTED_VALUES = frozenset({"Quantity", "IntOrString", "JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool"})
"""Structs whose own encoder writes a value that can be zero, so that a pointer to them tells zero from nil."""


def render_fields(schemas: Schemas, packages: Packages) -> str:
    """A line for each schema that has properties."""
    structs = _Structs(packages)
    lines = [
        " ".join((name, *structs.words(*go_type_of(name)))) for name in sorted(schemas) if "properties" in schemas[name]
    ]
    return "\n".join(lines) + "\n"


class _Structs:
    """Go types, resolved across packages."""

    def __init__(self, packages: Packages) -> None:
        self._packages = packages

    def words(self, path: str, name: str, above: tuple[str, ...] = ()) -> Iterator[str]:
        """The fields of a struct; those of embedded structs at their place."""
        for field in self._packages[path].structs[name]:
            if field.name:
                shown = self._shown_type(path, field.type)
                head = "".join(f"{part}." for part in above)[:-1] + "/" if above else ""
                yield f"{head}{field.name}{f':{shown}' if shown else ''}{self._mark(path, field)}"
            else:
                inner_path, inner = self._resolve(path, *local_types(field.type)[0])
                yield from self.words(inner_path, inner, (*above, inner))

    def _resolve(self, path: str, alias: str, name: str) -> tuple[str, str]:
        return (self._packages[path].imports.get(alias, alias) if alias else path), name

    def _named(self, path: str, name: str) -> str:
        """What a type that is not a struct stands for; empty for a struct."""
        package = self._packages.get(path)
        return package.named.get(name, "") if package else ""

    def _shown_type(self, path: str, text: str) -> str:
        used = [self._resolve(path, *part) for part in local_types(text)]
        if not any(self._named(*part) for part in used):
            return ""
        full = iter(f"{where.rpartition('/')[2]}.{name}" for where, name in used)
        return re.sub(r"(?:\w+\.)?[A-Z]\w*", lambda _: next(full), text.removeprefix("*"))

    def _mark(self, path: str, field: StructField) -> str:
        pointer, base = field.type.startswith("*"), field.type.removeprefix("*")
        used = local_types(base)
        name = used[0][1] if used and base.endswith(used[0][1]) else ""
        under = self._named(*self._resolve(path, *used[0])) if name and "[" not in base else ""
        is_list = (under or base).startswith(("[", "map["))
        is_struct = bool(name) and not under and not pointer and not is_list
        if "omitzero" in field.options or ("omitempty" in field.options and not is_struct):
            points_to_value = not name or bool(under) or name in _POINTED_VALUES
            return POINTER if pointer and points_to_value and not is_list else PLAIN
        return NULL if pointer or is_list or name in _NULL_STRUCTS else SHOWN
