"""Strategies: the differences between kinds, with defaults.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go, update.go, delete.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import DeleteRequestOptions
from opsdk.errors import ApiError, Cause
from opsdk.structured_merge.value import JsonObject

FieldGetter = Callable[[JsonObject], str]


class Strategy:
    """The rules of a kind. Methods may change `obj`, never `old`.

    For a large object, `arrange`, `as_read`, `canonicalize`, `generation_changed`, `warnings` and the methods that
    validate run in a thread (see `opsdk.aio.large_work`): they depend on their arguments only.

    Attributes:
        namespaced: whether the kind is namespaced.
        has_status: the main resource ignores ``status``; a status resource exists.
        has_generation: ``metadata.generation`` counts changes outside metadata and status.
        allow_create_on_update: PUT on a missing object creates it.
        allow_unconditional_update: PUT without a resourceVersion overwrites.
        graceful: objects are marked as deleted before their removal, even without a grace period.
        returns_deleted: DELETE returns the object instead of a Status.
        status_keeps: metadata fields that a status update does not change.
        core_metadata: unqualified finalizers must be known, as for core kinds.
        selectable: field selectors besides metadata.name and metadata.namespace.
        checks_preconditions: the kind's own REST handler checks the preconditions of a deletion, with its own messages.
    """

    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    returns_deleted: bool = False
    graceful: bool = False
    custom: bool = False
    core_metadata: bool = True
    checks_preconditions: bool = False
    selectable: Mapping[str, FieldGetter] = {}
    status_keeps: Sequence[str] = ("ownerReferences",)

    @property
    def reset_fields(self) -> Sequence[str]:
        """Dotted paths of the fields that writes to this resource do not own."""
        return ("status",) if self.has_status else ()

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Return the errors in a name, or in the `prefix` of a generated one."""
        return validation.dns_subdomain(name, prefix=prefix)

    def error_group(self, group: str) -> str:
        """Return the API group in errors."""
        return group

    def unknown_field(self, key: str) -> ApiError:
        """Return the error of an unsupported field selector."""
        if self.selectable:
            return api_errors.bad_request(f"field label not supported: {key}")
        return api_errors.bad_request(
            f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    # -------------------------------------------------------------- writing
    def arrange(self, obj: JsonObject) -> JsonObject:
        """Return the object with its fields in output order, before it is stored."""
        return obj

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set the fields that the server controls."""

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the fields that this write must not change."""

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Return the errors in a new object."""
        return ()

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Return the errors in a changed object."""
        return self.validate(context, obj)

    def as_read(self, obj: JsonObject) -> JsonObject:
        """Return the form of a stored object that updates are compared with."""
        return obj

    def canonicalize(self, obj: JsonObject) -> None:
        """Convert a valid object to its canonical form for storage."""

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Return the warnings for the client."""
        return ()

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """Report whether an update increments ``metadata.generation``."""
        skip = {"metadata", "apiVersion", "kind", *(("status",) if self.has_status else ())}
        keys = (obj.keys() | old.keys()) - skip
        return any(obj.get(k) != old.get(k) for k in keys)

    # -------------------------------------------------------------- deleting
    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Raise `ApiError` to reject the deletion of this object."""

    def propagation(self, context: Context, obj: JsonObject, requested: str) -> str:
        """Return the propagation policy: the requested one, else the kind's default."""
        return requested

    def grace(self, obj: JsonObject, options: DeleteRequestOptions) -> int:
        """Return the grace period in seconds; 0 removes the object immediately."""
        return 0

    def finalizers_on_delete(self, obj: JsonObject) -> Sequence[str]:
        """Return the finalizers that a deletion adds."""
        return ()

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        """Change fields that depend on the deletion timestamp, e.g. a phase."""

    def removable(self, obj: JsonObject) -> bool:
        """Report whether the kind allows to remove a marked object."""
        return True

    # -------------------------------------------------------------- hooks after writes
    async def after_create(self, context: Context, obj: JsonObject) -> None:
        """Called after the object is stored."""

    def before_create(self, context: Context, obj: JsonObject) -> None:
        """Called for a valid object before it is stored, e.g. to allocate addresses."""

    def abort_create(self, obj: JsonObject) -> None:
        """Called if an object is not created after `prepare_for_create`, e.g. to release addresses."""

    async def after_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Called after the object was replaced."""

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Called after the object was removed, e.g. to release addresses."""


class StatusStrategy(Strategy):
    """The strategy of the status subresource: only the status changes.

    Args:
        field: the name of the status field.
    """

    def __init__(self, main: Strategy, *, field: str = "status") -> None:
        self.main = main
        self.field = field
        self.namespaced = main.namespaced
        self.has_status = False
        self.has_generation = False
        self.allow_unconditional_update = main.allow_unconditional_update
        self.custom = main.custom
        self.core_metadata = main.core_metadata
        self.selectable = main.selectable

    @property
    def reset_fields(self) -> Sequence[str]:
        """Everything but the status and the mutable metadata."""
        if self.custom:
            return ("spec", "metadata")
        return ("spec", *(f"metadata.{key}" for key in self.main.status_keeps if key != "ownerReferences"))

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        return self.main.name_rule(name, prefix=prefix)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything but the status and the mutable metadata."""
        for key in [k for k in obj if k not in (self.field, "metadata", "apiVersion", "kind")]:
            del obj[key]
        obj.update({k: v for k, v in old.items() if k not in (self.field, "metadata")})
        meta, old_meta = obj["metadata"], old["metadata"]
        if self.custom:
            kept_meta = {k: meta[k] for k in ("managedFields", "resourceVersion") if k in meta}
            obj["metadata"] = {**{k: v for k, v in old_meta.items() if k != "managedFields"}, **kept_meta}
        else:
            for key in ("deletionTimestamp", "deletionGracePeriodSeconds", *self.main.status_keeps):
                meta.pop(key, None)
                if key in old_meta:
                    meta[key] = old_meta[key]
        if isinstance(self.main, HasStatusRules):
            self.main.prepare_status(context, obj, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Return the errors in the status, by the kind's rules."""
        return self.main.validate_status(context, obj, old) if isinstance(self.main, HasStatusRules) else ()

    def as_read(self, obj: JsonObject) -> JsonObject:
        return self.main.as_read(obj)

    def canonicalize(self, obj: JsonObject) -> None:
        self.main.canonicalize(obj)

    def arrange(self, obj: JsonObject) -> JsonObject:
        return self.main.arrange(obj)

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        self.main.mark_deleted(context, obj)

    def removable(self, obj: JsonObject) -> bool:
        return self.main.removable(obj)

    async def after_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        await self.main.after_update(context, obj, old)

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        await self.main.after_delete(context, obj)


class HasStatusRules(Strategy):
    """A strategy that validates the status too."""

    def prepare_status(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the fields that a status update cannot remove."""

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Return the errors in a changed status."""
        return ()
