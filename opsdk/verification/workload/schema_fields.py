"""The fields of a structural schema as a tree, within budgets of depth and count. Pure.

A definition that a server accepted is finite. One that comes from elsewhere may refer to itself, or have a million
fields: what is beyond the budgets is cut off and named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue

ENTRY: Final = "example"
"""The key of generated entries of maps."""
NAMESPACE: Final = "default"
"""The namespace of a generated custom resource."""
_MANAGED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Fields at the root that are not generated: the status belongs to the operator."""
_SUBSCHEMAS: Final = ("items", "additionalProperties", "not")
_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")

_CUT: Final = {"x-kubernetes-preserve-unknown-fields": True, "x-opsdk-cut": True}
"""The schema in the place of what was cut off: it allows any value, and no value is generated for it."""
_SOURCE: Final = "pass a definition that a server accepted"
_NUMBER: Final = (int, float)
_KEYWORDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "x-kubernetes-validations"), list),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    "x-kubernetes-list-map-keys": list,
    "properties": dict,
    "items": dict,
    "not": dict,
}
"""The types of keywords, as the server decodes them."""

Path = tuple[str | int, ...]
"""Names of fields, keys of map entries and indices of list elements."""


class SchemaBudget(Options, frozen=True, kw_only=True):
    """How much of a schema is read.

    Attributes:
        depth: nested levels; a pod template has 14.
        fields: nested schemas; a pod template has about 1,600.
    """

    depth: int = 30
    fields: int = 20_000


def field_path(path: Path) -> FieldPath:
    """Return a path as error messages print it.

    >>> str(field_path(("spec", "containers", 0, "image")))
    'spec.containers[0].image'
    """
    text = FieldPath()
    for part in path:
        text = text.index(part) if isinstance(part, int) else text.child(part)
    return text


class SchemaField:
    """One field of a custom resource.

    Attributes:
        path: from the root of the object.
        node: the schema of the value.
        parent: the field that has this one, or None.
        required: whether the parent must have it.
    """

    def __init__(
        self, path: Path, node: SchemaNode, parent: SchemaField | None = None, *, required: bool = False
    ) -> None:
        self.path = path
        self.node = node
        self.parent = parent
        self.required = required

    def __repr__(self) -> str:
        return f"<SchemaField {self}>"

    def __str__(self) -> str:
        return str(field_path(self.path))

    @property
    def name(self) -> str:
        """The name of the field; for list elements, that of the list."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")

    @property
    def is_element(self) -> bool:
        """Whether the field is an element of a list or an entry of a map."""
        return self.parent is not None and self in (self.parent.items, self.parent.entries)

    @property
    def is_cut(self) -> bool:
        """Whether the schema of the value was cut off."""
        return "x-opsdk-cut" in self.node.schema

    @cached_property
    def properties(self) -> Mapping[str, SchemaField]:
        """The declared fields of an object, without those that are not generated."""
        return {
            name: SchemaField((*self.path, name), below, self, required=name in self.node.required)
            for name, below in self.node.properties.items()
            if self.path or name not in _MANAGED
        }

    @cached_property
    def items(self) -> SchemaField | None:
        """The first element of a list."""
        return None if self.node.items is None else SchemaField((*self.path, 0), self.node.items, self)

    @cached_property
    def entries(self) -> SchemaField | None:
        """An entry of a map."""
        return None if self.node.additional is None else SchemaField((*self.path, ENTRY), self.node.additional, self)

    def lineage(self) -> list[SchemaField]:
        """Return the fields from the root to this one."""
        above = [] if self.parent is None else self.parent.lineage()
        return [*above, self]

    def walk(self) -> Iterator[SchemaField]:
        """Yield the fields below this one, upper levels first."""
        queue = deque([self])
        while queue:
            field = queue.popleft()
            below = [*field.properties.values(), *filter(None, (field.items, field.entries))]
            yield from (one for one in below if not one.is_cut)
            queue.extend(below)


def cut_schema(schema: Mapping[str, JsonValue], budget: SchemaBudget) -> tuple[JsonObject, list[str]]:
    """Return a copy of `schema` within the budget, and the paths that were cut off.

    What is cut off allows any value. The schema may contain itself.

    Raises:
        UsageError: a keyword has a value of the wrong type.

    >>> schema = {"type": "object", "properties": {"next": {}}}
    >>> schema["properties"]["next"] = schema
    >>> cut, paths = cut_schema(schema, SchemaBudget(depth=2))
    >>> cut["properties"]["next"]
    {'type': 'object', 'properties': {'next': {'x-kubernetes-preserve-unknown-fields': True, 'x-opsdk-cut': True}}}
    >>> paths
    ['next.next']
    """
    paths: list[str] = []
    root: JsonObject = {}
    count = 0
    queue: deque[tuple[Mapping[str, JsonValue], JsonObject, FieldPath, int]] = deque([(schema, root, FieldPath(), 0)])
    while queue:
        original, copy, path, depth = queue.popleft()
        count += 1
        if depth >= budget.depth or count > budget.fields:
            copy.update(_CUT)
            paths.append(str(path))
            continue
        _check_keywords(original, path)
        copy.update(original)
        for below, target, place in _replace_nested(original, copy, path):
            queue.append((below, target, place, depth + 1))
    return root, paths


def _check_keywords(schema: Mapping[str, JsonValue], path: FieldPath) -> None:
    if not isinstance(schema, Mapping):
        raise UsageError(f"the schema of {path or 'the root'} is not an object: {_SOURCE}")
    for keyword, kind in _KEYWORDS.items():
        value = schema.get(keyword)
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{keyword} in the schema of {path or 'the root'} is {str(value)[:100]!r}: {_SOURCE}")
    texts = (*(schema.get("required") or ()), *(schema.get("x-kubernetes-list-map-keys") or ()))
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"required in the schema of {path or 'the root'} has more than names: {_SOURCE}")
    rules = schema.get("x-kubernetes-validations") or ()
    if not all(
        isinstance(rule, dict) and all(isinstance(part, str | bool) for part in rule.values()) for rule in rules
    ):
        raise UsageError(f"a rule in the schema of {path or 'the root'} is not an object of strings: {_SOURCE}")


def _replace_nested(
    original: Mapping[str, JsonValue], copy: JsonObject, path: FieldPath
) -> Iterator[tuple[Mapping[str, JsonValue], JsonObject, FieldPath]]:
    """Put an empty schema in the place of each nested one, and yield both."""
    declared = original.get("properties")
    if isinstance(declared, Mapping):
        targets: dict[str, JsonObject] = {name: {} for name in declared}
        copy["properties"] = targets
        for name, below in declared.items():
            yield below, targets[name], path.child(name)
    for keyword in _SUBSCHEMAS:
        below = original.get(keyword)
        if isinstance(below, Mapping):
            target: JsonObject = {}
            copy[keyword] = target
            yield below, target, path.index(0) if keyword == "items" else path.child(ENTRY)
    for keyword in _ALTERNATIVES:
        if original.get(keyword):
            nested: list[JsonObject] = [{} for _ in original[keyword]]
            copy[keyword] = nested
            for below, target in zip(original[keyword], nested, strict=True):
                yield below, target, path
