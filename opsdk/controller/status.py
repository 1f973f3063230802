"""Writes the status of an object: only differences, with conditions that carry time and generation.

Upstream: sigs.k8s.io/cluster-api/util/patch has a helper with this purpose; controller-runtime has none.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, Self, TypeVar

import msgspec

from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import (
    TypedObject,
    Unstructured,
    convert,
    origin_of,
    retain_status,
    status_as_read,
    status_class,
)
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.apimachinery.unknown_fields import merge_unknown_fields
from opsdk.client.activity import record_conditions
from opsdk.client.client import Client
from opsdk.client.operations import PatchObject
from opsdk.client.patch import PatchType
from opsdk.client.status_writes import OwnStatusPatch
from opsdk.errors import ConflictError, UsageError
from opsdk.recipes.conditions import get_condition, set_condition
from opsdk.structured_merge.equality import strict_equal
from opsdk.structured_merge.value import JsonObject, JsonValue

S = TypeVar("S")


class StatusPatch(Generic[S]):
    """A change of an object's status. An async context manager: the end of the block writes the difference.

    No request is sent if nothing changed, or if the block raised. ``observed_generation`` of the status is set if its
    class has that field. The object's resource version is sent too. This proves that the event shows this write
    alone, so the controller does not reconcile again for it. After a conflict the patch is sent without the
    version, unless a list changed: a merge patch replaces lists, and must not replace what another writer has added.

    The object then has the written status. It has the new resource version if only the status has changed since it was
    read; otherwise a later update of it raises `ConflictError`.

    Attributes:
        status: the status; change it. A missing status was created.

    Raises:
        ConflictError: a list changed, and another writer has written the object. The next reconcile retries.
        NotFoundError: the object no longer exists.
        UsageError: the object has no status, or its status has required fields and is missing.
    """

    def __init__(self, client: Client, obj: TypedObject | Unstructured) -> None:
        self._client = client
        self._object: Any = obj
        self._is_unstructured = isinstance(obj, Unstructured)
        self._original: JsonObject | None = None
        self._read_conditions: list[Any] = []
        self.status: S

    async def __aenter__(self) -> Self:
        if self._original is not None:
            raise UsageError("a StatusPatch is used once: call ctx.status(obj) again")
        if isinstance(self._object, Unstructured):
            self.status = self._object.content.setdefault("status", {})
        else:
            if self._object.status is None:
                self._object.status = _new_status(type(self._object))
            self.status = self._object.status
        self._original = self._encoded_status()
        self._has_conditions = self._is_unstructured or hasattr(self.status, "conditions")
        if self._has_conditions:
            self._read_conditions = self._listed_conditions()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            return
        if self._has_conditions:
            self._record_conditions()
        self._observe_generation()
        if difference := self._difference():
            await self._write(difference)

    def _listed_conditions(self) -> list[Any]:
        """Return the items of the list of conditions; their identity tells those that were replaced."""
        if self._is_unstructured:
            return list(self.status.get("conditions") or ())  # type: ignore[attr-defined]
        return list(getattr(self.status, "conditions", None) or ())

    def _record_conditions(self) -> None:
        """Record the conditions that the block has put into the list itself, also if they equal those before."""
        before = set(map(id, self._read_conditions))
        if added := [item for item in self._listed_conditions() if id(item) not in before]:
            record_conditions(*(item["type"] if isinstance(item, dict) else item.type for item in added))

    def _encoded_status(self) -> JsonObject:
        """Return the status as a JSON tree; of a typed object, only the fields of its class."""
        status: JsonObject = to_builtins(self._object.get("status") if self._is_unstructured else self._object.status)
        return status

    def _difference(self) -> JsonObject:
        """Return the merge patch of the status. Items of lists keep the fields that their class does not know."""
        before, after = self._original, self._encoded_status()
        if strict_equal(before, after):
            return {}
        stored = None if self._is_unstructured else status_as_read(self._object)
        # A status that equals the stored one before the block has no fields that its class does not know.
        if stored and not strict_equal(stored, before) and (origin := origin_of(self._object)) is not None:
            declared = to_builtins(convert(origin, type(self._object)).status) or {}
            before, after = (merge_unknown_fields(stored, declared, status) for status in (before, after))
        difference: JsonObject = create_merge_patch(before, after)
        return difference

    async def _write(self, difference: JsonObject) -> None:
        patch: JsonObject = {"status": difference}
        version = self._object.metadata.resource_version
        sole_change = bool(version)
        try:
            written = await self._send(patch | {"metadata": {"resourceVersion": version}} if version else patch)
        except ConflictError:
            if not version or _contains_list(difference):
                raise
            sole_change = False
            written = await self._send(patch)
        retain_status(self._object, written, sole_change=sole_change)

    def _send(self, patch: JsonObject) -> Coroutine[Any, Any, Any]:
        # A shallow copy takes the response: other fields of the object keep what the reconciler has changed.
        target, own_patch = self._object.__copy__(), OwnStatusPatch(PatchType.MERGE, patch)
        return self._client.executor.execute(PatchObject(obj=target, patch=own_patch, subresource="status"))

    def set_condition(
        self,
        type: str,
        status: str | bool,
        reason: str,
        message: str = "",
    ) -> bool:
        """Set a condition with the time of the loop's clock and the object's generation.

        Args:
            type: the condition's type.
            status: ``"True"``, ``"False"``, ``"Unknown"`` or a bool.
            reason: one CamelCase word.
            message: a sentence.

        The time is that of the last change of the condition's status before the block, if its status is that one
        again: a condition may be reset first and set later.

        Returns True if the condition's status changed, or if the condition is new.
        """
        conditions = self._conditions()
        previous = get_condition(conditions, type)
        generation = self._object.metadata.generation
        if set_condition(conditions, type, status, reason, message, observed_generation=generation):
            self._keep_transition_time(conditions, type)
        self._set_conditions(conditions)
        return previous is None or previous.status != str(status)

    def _keep_transition_time(self, conditions: list[Condition], type: str) -> None:
        """Give a condition that was just set the time from before the block, if its status is the same as there."""
        stored = (self._original or {}).get("conditions") or ()
        before = get_condition([msgspec.convert(item, Condition) for item in stored], type)
        condition = get_condition(conditions, type)
        if before is None or condition is None or before.status != condition.status:
            return
        if before.last_transition_time is not None:
            condition.last_transition_time = before.last_transition_time

    def remove_condition(self, type: str) -> bool:
        """Remove a condition. Returns False if there is none of this type."""
        conditions = self._conditions()
        remaining = [condition for condition in conditions if condition.type != type]
        self._set_conditions(remaining)
        return len(remaining) != len(conditions)

    def get_condition(self, type: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return get_condition(self._conditions(), type)

    def _conditions(self) -> list[Condition]:
        """Return a copy of the status's conditions. Raises `UsageError` if the status has none of opsdk's."""
        if isinstance(self._object, Unstructured):
            return msgspec.convert(self._object.get("status", "conditions") or [], list[Condition])
        conditions = getattr(self.status, "conditions", None)
        if conditions is None:
            raise UsageError(
                f"{type(self.status).__name__} has no list of conditions: add "
                "`conditions: list[Condition] = field(default_factory=list)`"
            )
        if any(not isinstance(condition, Condition) for condition in conditions):
            raise UsageError(
                f"the conditions of {type(self.status).__name__} are not of opsdk's class Condition: "
                "change patch.status.conditions"
            )
        return list(conditions)

    def _set_conditions(self, conditions: list[Condition]) -> None:
        if isinstance(self._object, Unstructured):
            before = {item["type"]: item for item in self._object.get("status", "conditions") or ()}
            unchanged = {name for name, item in before.items() if msgspec.convert(item, Condition) in conditions}
            self._object.content["status"]["conditions"] = [
                before[condition.type] if condition.type in unchanged else to_builtins(condition)
                for condition in conditions
            ]
        else:
            self._object.status.conditions = conditions

    def _observe_generation(self) -> None:
        generation = self._object.metadata.generation
        if isinstance(self._object, Unstructured):
            if "observedGeneration" in self._object.content["status"]:
                self._object.content["status"]["observedGeneration"] = generation
        elif hasattr(self.status, "observed_generation"):
            self.status.observed_generation = generation


def _new_status(cls: type[TypedObject]) -> Any:
    """Return an empty status for an object that has none."""
    form = status_class(cls)
    if form is None:
        raise UsageError(f"{cls.__name__} has no status")
    try:
        return form()
    except TypeError as error:
        raise UsageError(
            f"{form.__name__} has required fields, and this {cls.__name__} has no status yet: "
            f"give each field of {form.__name__} a default"
        ) from error


def _contains_list(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_contains_list, value.values()))
    return isinstance(value, list)
