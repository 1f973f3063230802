"""One level of a compiled schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opsdk.apiserver.strfmt import is_known
from opsdk.cel.regex import Pattern, compile_regex
from opsdk.structured_merge.value import JsonValue

META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, also without a schema."""


class SchemaNode:
    """One level of a schema.

    Attributes:
        types: the allowed JSON types; empty allows all.
        format: the format if it applies to the type.
        properties: the declared fields.
        defaulted: those with a default.
        additional: the schema of other entries, or None.
        open: whether other entries are allowed without a schema (``additionalProperties: true``).
        items: the schema of list elements.
        preserve: whether unknown fields are kept.
        embedded: whether the value is an object with apiVersion, kind and metadata.
        nests: whether this or a nested schema is an embedded resource.
        logical: whether it has allOf, anyOf, oneOf or not.
        fills: whether this or a nested schema has a default.
        unique: whether this or a nested schema is a set or map list.
        schema: the original schema.
    """

    __slots__ = (
        "_pattern",
        "additional",
        "all_of",
        "any_of",
        "default",
        "defaulted",
        "embedded",
        "enum",
        "fills",
        "format",
        "has_default",
        "items",
        "list_keys",
        "list_type",
        "logical",
        "map_type",
        "nests",
        "not_",
        "nullable",
        "one_of",
        "open",
        "preserve",
        "properties",
        "required",
        "schema",
        "types",
        "unique",
    )

    def __init__(self, schema: Mapping[str, JsonValue], *, mixed: bool = False) -> None:
        """Compile a schema with all nested ones. `mixed` allows all types for int-or-string, as in defaults."""
        self.schema = schema
        self.types: tuple[str, ...]
        if schema.get("x-kubernetes-int-or-string"):
            self.types = () if mixed else ("integer", "string")
        else:
            kind = schema.get("type")
            self.types = (kind,) if kind else ()
        form: str = schema.get("format") or ""
        self.format = form if is_known(form, self.types[0] if len(self.types) == 1 else "") else ""
        self.nullable = bool(schema.get("nullable"))
        self.properties = {
            name: SchemaNode(below, mixed=mixed) for name, below in (schema.get("properties") or {}).items()
        }
        self.defaulted: list[tuple[str, SchemaNode]] = [
            (name, node) for name, node in self.properties.items() if node.default is not None
        ]
        additional = schema.get("additionalProperties")
        self.additional = SchemaNode(additional, mixed=mixed) if isinstance(additional, Mapping) else None
        self.open = additional is True
        items = schema.get("items")
        self.items = SchemaNode(items, mixed=mixed) if isinstance(items, Mapping) else None
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.required: tuple[str, ...] = tuple(schema.get("required") or ())
        self.enum: list[JsonValue] = list(schema.get("enum") or ())
        self.list_type: str = schema.get("x-kubernetes-list-type") or ""
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = schema.get("x-kubernetes-map-type") or ""
        default = schema.get("default")
        self.has_default = default is not None
        self.default: JsonValue = default
        below = [node for node in (*self.properties.values(), self.additional, self.items) if node is not None]
        self.fills: bool = self.has_default or any(node.fills for node in below)
        self.nests: bool = self.embedded or any(node.nests for node in below)
        self.unique: bool = self.list_type in ("set", "map") or any(node.unique for node in below)
        self.all_of = [SchemaNode(below) for below in schema.get("allOf") or ()]
        self.any_of = [SchemaNode(below) for below in schema.get("anyOf") or ()]
        self.one_of = [SchemaNode(below) for below in schema.get("oneOf") or ()]
        self.not_ = SchemaNode(schema["not"]) if isinstance(schema.get("not"), Mapping) else None
        self._pattern: Pattern | None = None
        self.logical = bool(self.all_of or self.any_of or self.one_of or self.not_)

    @property
    def pattern(self) -> Pattern | None:
        """The pattern, compiled by the first value that it checks: a definition may have 30,000 of them."""
        if self._pattern is None and (text := self.schema.get("pattern")):
            self._pattern = compile_regex(text)
        return self._pattern

    def entry(self, name: str) -> SchemaNode | None:
        """Return the schema of an object's entry, or None."""
        return self.properties.get(name) or self.additional

    def limit(self, keyword: str) -> JsonValue:
        """Return the value of a keyword such as ``maxLength``, or None."""
        return self.schema.get(keyword)
