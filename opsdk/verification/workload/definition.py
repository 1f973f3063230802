"""One version of a CustomResourceDefinition: names, schema, and what its server admits. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.cel.regex import compile_regex
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath, get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.schema_fields import ENTRY, NAMESPACE, SchemaBudget, SchemaField, cut_schema

Admits = Callable[[JsonObject, JsonObject | None], Sequence[str]]
"""Returns the errors of a custom resource that replaces another one, or is created; none if the server admits it."""


class DefinitionVersion:
    """A version of a definition, compiled within a budget.

    Args:
        definition: the CustomResourceDefinition as the server returns it.
        version: its name; the stored version without one.
        budget: how much of the schema is read.

    Attributes:
        types: apiVersion and kind.
        root: the field that has all others.
        cut: the paths of the parts of the schema that are beyond the budget.

    Raises:
        UsageError: the version does not exist or has no schema, or no server would accept the definition.
    """

    def __init__(self, definition: Mapping[str, JsonValue], version: str, budget: SchemaBudget) -> None:
        try:
            spec = definition["spec"]
            versions = {str(one["name"]): one for one in spec["versions"]}
            chosen = version or next(name for name, one in versions.items() if one.get("storage"))
            self.types = {"apiVersion": f"{spec['group']}/{chosen}", "kind": str(spec["names"]["kind"])}
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            raise UsageError("this is no CustomResourceDefinition: pass one that a server accepted") from error
        schema = get_path(versions.get(chosen), ("schema", "openAPIV3Schema"), None)
        if schema is None:
            raise UsageError(
                f"{self.types['kind']} has no schema for version {chosen!r}: "
                f"name one of {', '.join(versions)} that has a schema"
            )
        self._namespaced = spec.get("scope") == "Namespaced"
        cut, self.cut = cut_schema(schema, budget)
        try:
            self._schema = StructuralSchema(cut)
            _compile_patterns(cut)
        except UsageError:
            # A pattern, for example: the error of the server has its path.
            errors = [str(error) for error in check_structural(schema, FieldPath(chosen), has_status=True)]
            if not errors:
                raise
            raise UsageError(f"the schema of {self.types['kind']} is not valid, correct it: {errors[0]}") from None
        self.root = SchemaField((), SchemaNode(cut))
        # The same state is completed again and again, while one field of it changes.
        self._completed: deque[tuple[JsonObject, JsonObject]] = deque(maxlen=4)
        replicas = get_path(versions[chosen], ("subresources", "scale", "specReplicasPath"), "")
        self._replicas = tuple(str(replicas).removeprefix(".").split("."))

    def object(self, fields: JsonObject) -> JsonObject:
        """Return a custom resource with these fields at its root; types, name and namespace may be absent."""
        metadata = {"name": ENTRY, "namespace": NAMESPACE} if self._namespaced else {"name": ENTRY}
        return {**self.types, **fields, "metadata": {**metadata, **fields.get("metadata", {})}}

    def complete(self, obj: JsonObject) -> JsonObject:
        """Return a custom resource as the server stores it: pruned, with defaults. Neither may be changed."""
        for original, stored in self._completed:
            if original is obj:
                return stored
        pruned, _ = self._schema.prune(obj)
        completed: JsonObject = self._schema.default(self._schema.without_nulls(pruned))
        self._completed.append((obj, completed))
        return completed

    def errors(self, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Return the errors that the server has for `obj`, if it replaces `old` or is created. See `Admits`."""
        completed = self.complete(obj)
        before = None if old is None else self.complete(old)
        return [*map(str, self._schema.validate(completed, before)), *self._replica_errors(completed)]

    def _replica_errors(self, obj: JsonObject) -> Sequence[str]:
        """Return the error of the replicas that the scale subresource reads.

        Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go (v1.36).
        """
        replicas = get_path(obj, self._replicas, 0)
        if isinstance(replicas, int) and replicas < 0:
            return [f"{'.'.join(self._replicas)}: Invalid value: {replicas}: should be a non-negative integer"]
        return []


def _compile_patterns(schema: JsonValue) -> None:
    """Raise `UsageError` for a pattern that no server takes. A schema compiles each one with its first value."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            compile_regex(pattern)
        for name, value in schema.items():
            if name not in ("default", "enum", "example"):
                _compile_patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            _compile_patterns(value)
