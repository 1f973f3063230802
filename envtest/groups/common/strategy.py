"""The base strategy of the built-in kinds, driven by the generated tables.

Upstream: pkg/registry/<group>/<kind>/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from envtest.codec.field_order import Arrange, arranger
from envtest.codec.gated_fields import gated_type
from envtest.data.resources import ServedResourceRow
from envtest.data.schemas import types
from envtest.data.versions import DEFAULT
from envtest.groups.common.kind_traits import traits_of
from envtest.groups.common.pod_spec import drop_disabled
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import FieldGetter, HasStatusRules
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import ApiError, Cause
from opsdk.structured_merge.value import JsonObject


class GeneratedStrategy(HasStatusRules):
    """A strategy that is driven by the generated tables."""

    def __init__(self, row: ServedResourceRow, *, has_status: bool) -> None:
        traits = traits_of(row.info.group, row.info.resource)
        self.info = row.info
        self.namespaced = row.info.namespaced
        self.has_status = has_status
        self.has_generation = traits.has_generation
        self.returns_deleted = traits.returns_deleted
        self.allow_create_on_update = traits.create_on_update
        self.allow_unconditional_update = not traits.version_required
        self.selectable: Mapping[str, FieldGetter] = {}
        if traits.status_alone:
            self.status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
        self._template = traits.template
        self._name_rule = validation.path_segment if traits.path_names else validation.dns_subdomain
        self._kubernetes = row.kubernetes
        self._arrange: Arrange | None = None
        self._gated = None if row.kubernetes == DEFAULT else gated_type(self._schema(), row.kubernetes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.info.resource}>"

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a DNS subdomain, or a path segment for RBAC."""
        return self._name_rule(name, prefix=prefix)

    def arrange(self, obj: JsonObject) -> JsonObject:
        """Return the object with its fields in the order of the Go type."""
        if self._arrange is None:
            self._arrange = arranger(self._schema(), self._kubernetes)
        arranged: JsonObject = self._arrange(obj)
        return arranged

    def _schema(self) -> str:
        return types(self._kubernetes).name_of(self.info.group, self.info.version, self.info.kind) or ""

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Return the status of a new object; the client's status is ignored."""
        return {}

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Reset the status and drop the fields of disabled feature gates."""
        if self.has_status:
            obj["status"] = self.initial_status(obj)
        if self._template:
            drop_disabled(_spec_at(obj, self._template))
        if self._gated is not None:
            self._gated.drop(obj, None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the old status if the kind has a status subresource."""
        if self.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if self._template:
            drop_disabled(_spec_at(obj, self._template), _spec_at(old, self._template))
        if self._gated is not None:
            self._gated.drop(obj, old)


def _spec_at(obj: JsonObject, path: Sequence[str]) -> JsonObject:
    for key in path:
        obj = obj.get(key) or {}
    return obj


New = Callable[[JsonObject], Iterator[Cause]]
Changed = Callable[[JsonObject, JsonObject], Iterator[Cause]]
Prepare = Callable[[Context, JsonObject, JsonObject | None], None]


class KindRules(msgspec.Struct, frozen=True, kw_only=True):
    """The validation, warning and preparation functions of one kind.

    Attributes:
        new: validates a new object, and an updated one if `changed` is not set.
        status: validates an updated status.
        initial_status: the status of a new object; None keeps what the client sent.
        selectable: field selectors besides name and namespace.
        warnings: returns the warnings for a create or an update.
        prepare: sets and drops fields before a create or an update.
        name: returns the errors of a name; None uses the tables.
        counted: the part of the metadata whose changes increase the generation.
        wrong_field: the kind's own message for an unknown field selector.
    """

    new: New
    changed: Changed | None = None
    status: Changed | None = None
    initial_status: JsonObject | None = msgspec.field(default_factory=dict)
    selectable: Mapping[str, FieldGetter] = msgspec.field(default_factory=dict)
    warnings: Callable[[JsonObject, JsonObject | None], Iterable[str]] | None = None
    prepare: Prepare | None = None
    name: Callable[[str], Sequence[str]] | None = None
    counted: Callable[[JsonObject], object] | None = None
    wrong_field: str = ""


class RuledStrategy(GeneratedStrategy):
    """See `KindRules`."""

    def __init__(self, row: ServedResourceRow, has_status: bool, rules: KindRules) -> None:
        super().__init__(row, has_status=has_status)
        self._rules = rules
        self.selectable = rules.selectable

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        return super().name_rule(name, prefix=prefix) if self._rules.name is None else self._rules.name(name)

    def initial_status(self, obj: JsonObject) -> JsonObject:
        if self._rules.initial_status is None:
            return obj.get("status") or {}
        status: JsonObject = copy_tree(self._rules.initial_status)
        return status

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        super().prepare_for_create(context, obj)
        self._prepare(context, obj, None)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        super().prepare_for_update(context, obj, old)
        self._prepare(context, obj, old)

    def _prepare(self, context: Context, obj: JsonObject, old: JsonObject | None) -> None:
        if self._rules.prepare is not None:
            self._rules.prepare(context, obj, old)

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        counted = self._rules.counted
        return super().generation_changed(obj, old) or (counted is not None and counted(obj) != counted(old))

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(self._rules.new(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(self._rules.new(obj) if self._rules.changed is None else self._rules.changed(obj, old))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(self._rules.status(obj, old)) if self._rules.status is not None else ()

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        return list(self._rules.warnings(obj, old)) if self._rules.warnings is not None else ()

    def unknown_field(self, key: str) -> ApiError:
        wrong = self._rules.wrong_field
        return api_errors.bad_request(wrong.format(key)) if wrong else super().unknown_field(key)


StrategyFactory = Callable[[ServedResourceRow, bool], GeneratedStrategy]
"""Returns the strategy of a resource; the second argument is whether it has a status subresource."""


def ruled(rules: KindRules) -> StrategyFactory:
    """Return the factory of a strategy that consists of functions."""
    return partial(RuledStrategy, rules=rules)
