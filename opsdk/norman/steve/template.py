"""SchemaTemplates: customizations of types.

Upstream: github.com/rancher/steve/pkg/schema/collection.go (Template)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.store import SteveStore, Target
from opsdk.structured_merge.value import JsonObject

Customize = Callable[[SteveSchema], SteveSchema]
"""Returns the schema with changes."""

Formatter = Callable[[JsonObject, Target], JsonObject]
"""Returns the resource as users see it, with more or fewer fields, links and actions."""

ActionHandler = Callable[[Target, JsonObject], Awaitable[JsonObject]]
"""Runs an action of an object with its input, and returns the output."""


class SchemaTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Changes types: one by its id, those of a group and kind, all of a group, or, without any of these, all types.

    Attributes:
        id: of a schema.
        group: with a kind, or alone for all kinds of the group.
        kind: of the objects.
        customize: changes the schema.
        formatter: changes each resource. Those of more specific templates run first.
        store: reads and writes objects. The most specific template takes precedence.
        actions: handlers by name.
    """

    id: str = ""
    group: str = ""
    kind: str = ""
    customize: Customize | None = None
    formatter: Formatter | None = None
    store: SteveStore | None = None
    actions: Mapping[str, ActionHandler] = {}

    def applies_to(self, schema: SteveSchema) -> bool:
        """Whether the template changes a type."""
        if self.id:
            return self.id == schema.id
        if self.kind:
            return (self.group, self.kind) == (schema.group, schema.kind)
        return self.group in ("", schema.group)

    @property
    def _specificity(self) -> int:
        return 0 if self.id else 1 if self.kind else 2 if self.group else 3


class SchemaTemplates:
    """All templates, the most specific ones first.

    >>> SchemaTemplates([SchemaTemplate(kind="Pod", customize=lambda schema: schema)])
    <SchemaTemplates: 1>
    """

    def __init__(self, templates: Sequence[SchemaTemplate] = ()) -> None:
        self._templates = sorted(templates, key=lambda template: template._specificity)  # noqa: SLF001 - of the same module

    def _matching(self, schema: SteveSchema) -> list[SchemaTemplate]:
        return [template for template in self._templates if template.applies_to(schema)]

    def customize(self, schema: SteveSchema) -> SteveSchema:
        """Return the schema with the changes and actions of its templates."""
        for template in self._matching(schema):
            if template.customize is not None:
                schema = template.customize(schema)
            if template.actions:
                schema = replace(schema, actions=tuple(dict.fromkeys((*schema.actions, *template.actions))))
        return schema

    def format(self, resource: JsonObject, target: Target) -> JsonObject:
        """Return a resource as the formatters of its type leave it."""
        for template in self._matching(target.schema):
            if template.formatter is not None:
                resource = template.formatter(resource, target)
        return resource

    def formatted(self, schema: SteveSchema) -> bool:
        """Whether a template changes resources of a type."""
        return any(template.formatter is not None for template in self._matching(schema))

    def store(self, schema: SteveSchema, default: SteveStore) -> SteveStore:
        """Return the store of a type."""
        return next((t.store for t in self._matching(schema) if t.store is not None), default)

    def custom_store(self, schema: SteveSchema) -> bool:
        """Whether a template replaces the store, so that lists do not come from the cache."""
        return any(template.store is not None for template in self._matching(schema))

    def action(self, schema: SteveSchema, name: str) -> ActionHandler | None:
        """Return the handler of an action, or None."""
        return next((t.actions[name] for t in self._matching(schema) if name in t.actions), None)

    def __repr__(self) -> str:
        return f"<SchemaTemplates: {len(self._templates)}>"
