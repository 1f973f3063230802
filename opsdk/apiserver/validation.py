"""Validates custom objects by their definitions, as the API server does on a create or an update, without a server.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupKind, GroupVersionKind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import decode_hook
from opsdk.apimachinery.object import Object, to_dict
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.structural.strategy import SchemaStrategy
from opsdk.errors import Cause, UsageError
from opsdk.structured_merge.value import JsonObject

__all__ = ["FieldProblem", "validate"]

_META_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(ObjectMeta))


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One error of an object: the path of the field, empty for the whole object, and the message."""

    field: str
    message: str


def validate(
    obj: Object[Any, Any], old: Object[Any, Any] | None = None, *, warn: Callable[[str], None] = lambda _: None
) -> list[FieldProblem]:
    """Return the errors that the API server would give for an object, without a server; empty for a valid one.

    Schema, defaults, CEL rules with their transitions, and metadata count, as the class declares them. Webhooks,
    policies and what other objects decide do not. Needs the extra ``envtest``.

    >>> from opsdk.apimachinery.crd import Rule
    >>> from opsdk.apimachinery.model import Model
    >>> class SiteSpec(Model):
    ...     low: int = 0
    ...     high: int = 9
    ...     rules = (Rule("self.low <= self.high", message="low exceeds high"),)
    >>> class Site(Object[SiteSpec, None]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> validate(Site(metadata=ObjectMeta(name="a"), spec=SiteSpec(low=10)))
    [FieldProblem(field='spec', message='Invalid value: low exceeds high')]

    Args:
        obj: as it would be sent.
        old: the object before an update, for transition rules, and for violations by values that do not change, which
            the server tolerates; None for a create.
        warn: gets the tolerated violations.

    Raises:
        UsageError: the class is not a custom resource, or its declaration is not valid.
        ConfigError: a pattern or a rule needs a library of the extra.
    """
    if not isinstance(obj, Object):
        raise UsageError(f"{obj!r} is not a custom resource: validate takes an object of a class with a definition")
    before = to_dict(old) if old is not None else None
    return list(_kinds_of(type(obj)).problems(obj.gvk, to_dict(obj), before, warn))


@lru_cache(maxsize=64)
def _kinds_of(cls: type[Object[Any, Any]]) -> CustomKinds:
    return CustomKinds([crd_for(cls)])


class CustomKinds:
    """The kinds of CustomResourceDefinitions.

    Args:
        definitions: complete objects.
    """

    def __init__(self, definitions: Iterable[JsonObject]) -> None:
        self._versions: dict[GroupVersionKind, _Version] = {}
        for definition in definitions:
            spec = definition["spec"]
            for version in spec["versions"]:
                gvk = GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"])
                self._versions[gvk] = _Version(spec, version)

    def versions_of(self, gvk: GroupVersionKind) -> str:
        """Return the versions of a kind as text; empty if no definition has the kind."""
        return ", ".join(sorted(own.version for own in self._versions if own.group_kind == gvk.group_kind))

    @property
    def group_kinds(self) -> set[GroupKind]:
        """The kinds, in any version."""
        return {gvk.group_kind for gvk in self._versions}

    def problems(
        self, gvk: GroupVersionKind, tree: JsonObject, old: JsonObject | None, warn: Callable[[str], None]
    ) -> Iterator[FieldProblem]:
        """Yield the errors of an object of a kind with a definition.

        Args:
            gvk: of the object.
            tree: as it would be sent; it is not changed.
            old: the object before an update, for transition rules and unchanged values; None for a create.
            warn: gets violations by unchanged values.
        """
        version = self._versions.get(gvk)
        if version is None:
            yield FieldProblem(
                field="apiVersion", message=f"{gvk.kind} has no version {gvk.version}, only {self.versions_of(gvk)}"
            )
            return
        meta = tree.get("metadata")
        if meta_problems := list(metadata_problems(meta)):
            yield from meta_problems
            return
        pruned, unknown = version.schema.prune(tree)
        yield from (FieldProblem(field=path, message="unknown field") for path in unknown)
        strategy = version.strategy
        obj = version.schema.default(pruned)
        namespace = obj["metadata"].get("namespace") or ("default" if strategy.namespaced else "")
        context = Context(namespace=namespace, warn=warn)
        if old is None:
            strategy.prepare_for_create(context, obj)
            causes: Sequence[Cause] = strategy.validate(context, obj)
        else:
            before = version.schema.default(version.schema.prune(old)[0])
            strategy.prepare_for_update(context, obj, before)
            causes = strategy.validate_update(context, obj, before)
        causes = [*metadata.validate(strategy, obj["metadata"], namespace), *causes]
        for cause in causes:
            # The server has no field for an error of the whole object, and writes Go's nil.
            yield FieldProblem(field="" if cause.field == "<nil>" else cause.field, message=cause.message)


class _Version:
    """One version of a definition. Its schema is compiled on first use."""

    def __init__(self, spec: JsonObject, version: JsonObject) -> None:
        self._spec = spec
        self._version = version

    @cached_property
    def schema(self) -> StructuralSchema:
        return StructuralSchema(self._version["schema"]["openAPIV3Schema"])

    @cached_property
    def strategy(self) -> SchemaStrategy:
        has_status = "status" in (self._version.get("subresources") or {})
        return SchemaStrategy(self.schema, namespaced=self._spec["scope"] == "Namespaced", has_status=has_status)


def metadata_problems(meta: object) -> Iterator[FieldProblem]:
    """Yield the errors of metadata that cannot be decoded, or has unknown fields."""
    if not isinstance(meta, dict):
        yield FieldProblem(field="metadata", message="Required value: an object with a name")
        return
    yield from (
        FieldProblem(field=f"metadata.{name}", message="unknown field") for name in meta if name not in _META_FIELDS
    )
    try:
        msgspec.convert(meta, ObjectMeta, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        yield FieldProblem(field="metadata", message=str(error))
