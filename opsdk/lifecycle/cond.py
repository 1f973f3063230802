"""One condition of an object's status, for typed and unstructured objects.

Upstream: github.com/rancher/wrangler/pkg/condition, github.com/rancher/norman/condition
Deviates: it writes metav1.Condition, with a reason and the observed generation. Fields of other condition types, such
as ``lastUpdateTime``, are kept up to date where they exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.aio.containment import cancellations, contain
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.apimachinery.time import whole_seconds
from opsdk.client.client import Client
from opsdk.controller.outcome import shorten_error
from opsdk.errors import ConflictError, UsageError
from opsdk.lifecycle.errors import IgnoreError
from opsdk.lifecycle.writes import Before, ChangeWriter

T = TypeVar("T", bound=TypedObject | Unstructured)

_FIELDS = {
    "status": "status",
    "reason": "reason",
    "message": "message",
    "last_transition_time": "lastTransitionTime",
    "last_update_time": "lastUpdateTime",
    "observed_generation": "observedGeneration",
}
_REASONS = {"True": "Succeeded", "False": "Failed", "Unknown": "Pending"}
"""Reasons where the caller gives none: the schema of metav1.Condition requires one."""


class Cond:
    """A condition by its type. It holds no state: each method gets the object and changes it in place.

    >>> from opsdk.apimachinery.object import Unstructured
    >>> ready, site = Cond("Ready"), Unstructured(api_version="demo.opsdk.dev/v1", kind="Site")
    >>> async def example() -> None:
    ...     ready.true(site, message="3 of 3 replicas")
    >>> import asyncio
    >>> asyncio.run(example())
    >>> ready.is_true(site), ready.message(site)
    (True, '3 of 3 replicas')

    Args:
        type: the condition's type.
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self._writer = ChangeWriter()

    # -------------------------------------------------------------- reading
    def status(self, obj: TypedObject | Unstructured) -> str:
        """Return ``True``, ``False``, ``Unknown``, or an empty string without the condition."""
        return str(self._value(obj, "status"))

    def is_true(self, obj: TypedObject | Unstructured) -> bool:
        """Whether the status is True."""
        return self.status(obj) == "True"

    def is_false(self, obj: TypedObject | Unstructured) -> bool:
        """Whether the status is False."""
        return self.status(obj) == "False"

    def is_unknown(self, obj: TypedObject | Unstructured) -> bool:
        """Whether the status is Unknown. A condition that is missing is not."""
        return self.status(obj) == "Unknown"

    def reason(self, obj: TypedObject | Unstructured) -> str:
        """Return the reason; empty without the condition."""
        return str(self._value(obj, "reason"))

    def message(self, obj: TypedObject | Unstructured) -> str:
        """Return the message; empty without the condition."""
        return str(self._value(obj, "message"))

    def last_updated(self, obj: TypedObject | Unstructured) -> datetime | None:
        """Return the last update, or the last transition of a condition without that field."""
        moment = self._value(obj, "last_update_time") or self._value(obj, "last_transition_time")
        return datetime.fromisoformat(moment) if isinstance(moment, str) and moment else moment or None

    def _value(self, obj: TypedObject | Unstructured, field: str) -> Any:
        entry = _find(_conditions(obj), self.type)
        if entry is None:
            return ""
        return (entry.get(_FIELDS[field]) if isinstance(entry, dict) else getattr(entry, field, "")) or ""

    # -------------------------------------------------------------- changing
    def set(
        self, obj: TypedObject | Unstructured, status: str | bool, *, reason: str | None = None, message: str = ""
    ) -> bool:
        """Set the condition, and return whether anything changed. Timestamps change only if the condition changes.

        Args:
            obj: its ``status.conditions`` is changed.
            status: ``"True"``, ``"False"``, ``"Unknown"`` or a bool.
            reason: one CamelCase word; None means Succeeded, Failed or Pending.
            message: a sentence.

        Raises:
            UsageError: the kind has no status, or no list of conditions in it.
        """
        word = str(status)
        values: dict[str, Any] = {
            "status": word,
            "reason": _REASONS.get(word, word) if reason is None else reason,
            "message": message,
            "observed_generation": obj.metadata.generation,
        }
        conditions = _ensure_conditions(obj)
        entry = _find(conditions, self.type)
        is_new = entry is None
        if entry is None:
            entry = _new_entry(obj, self.type)
            conditions.append(entry)
        now = whole_seconds(utc_now())
        if is_new or self.status(obj) != word:
            values["last_transition_time"] = now
        changed = _assign(entry, values)
        if changed:
            _assign(entry, {"last_update_time": now}, only_existing=True)
        return changed or is_new

    def true(self, obj: TypedObject | Unstructured, *, reason: str | None = None, message: str = "") -> bool:
        """Set the status to True. See `set`."""
        return self.set(obj, "True", reason=reason, message=message)

    def false(self, obj: TypedObject | Unstructured, *, reason: str | None = None, message: str = "") -> bool:
        """Set the status to False. See `set`."""
        return self.set(obj, "False", reason=reason, message=message)

    def unknown(self, obj: TypedObject | Unstructured, *, reason: str | None = None, message: str = "") -> bool:
        """Set the status to Unknown. See `set`."""
        return self.set(obj, "Unknown", reason=reason, message=message)

    def create_unknown_if_not_exists(self, obj: TypedObject | Unstructured) -> bool:
        """Add the condition with the status Unknown if it is missing. Returns whether it was."""
        return not self.status(obj) and self.unknown(obj)

    def set_error(self, obj: TypedObject | Unstructured, error: BaseException | None, *, reason: str = "Error") -> bool:
        """Set the outcome: False with the error's message, or True without an error. A conflict changes nothing."""
        if error is None:
            return self.true(obj)
        if isinstance(error, ConflictError):
            return False
        return self.false(obj, reason=reason, message=shorten_error(error))

    # -------------------------------------------------------------- steps
    async def do(self, obj: T, function: Callable[[T], Awaitable[T | None]]) -> T:
        """Call `function`, and set the condition to True, or to False with the error that it raised.

        `function` gets the object and returns it, or None. The condition of `obj` is set even if it raises: a lifecycle
        writes it, and so does `track`. A `ConflictError` and an `IgnoreError` leave the condition as it was.
        """
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            returned = await function(obj)
        except IgnoreError:
            raise
        except BaseException as error:
            self.set_error(obj, contain(error, task=task, cancelling=before))
            raise
        done = obj if returned is None else returned
        self.true(done)
        return done

    async def do_until_true(self, obj: T, function: Callable[[T], Awaitable[T | None]]) -> T:
        """Like `do`, unless the condition is True."""
        return obj if self.is_true(obj) else await self.do(obj, function)

    async def once(self, obj: T, function: Callable[[T], Awaitable[T | None]]) -> T:
        """Like `do_until_true`, without a second attempt: raises `IgnoreError` if the condition is False."""
        if self.is_false(obj):
            raise IgnoreError(f"{self.type} is False, and once() does not retry: {self.message(obj)}")
        return await self.do_until_true(obj, function)

    async def track(self, client: Client, obj: T, function: Callable[[T], Awaitable[T | None]]) -> T:
        """Like `do`, and write the changes of the object, even if the function raises."""
        before, task = Before.of(obj), asyncio.current_task()
        cancelling = cancellations(task)
        try:
            done = await self.do(obj, function)
        except BaseException as error:
            contain(error, task=task, cancelling=cancelling)
            try:
                await self._writer.write(client, before, obj)
            except Exception as failure:  # noqa: BLE001 - the function's own error is raised, with this one as a note
                error.add_note(f"condition {self.type} was not written: {failure}")
            raise
        await self._writer.write(client, before, done)
        return done

    def __repr__(self) -> str:
        return f"Cond({self.type!r})"


def ensure_status(obj: TypedObject) -> Any:
    """Return the status of a typed object, and create it if it is missing.

    Raises `UsageError` if the kind has none, or if its status has required fields.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(type(obj))}
    if "status" not in fields:
        raise UsageError(f"{type(obj).__name__} has no status: use a kind with a status")
    owner: Any = obj
    if owner.status is None:
        try:
            owner.status = msgspec.convert({}, fields["status"])
        except msgspec.ValidationError as error:
            raise UsageError(
                f"this {type(obj).__name__} has no status yet: give each field of its status a default ({error})"
            ) from error
    return owner.status


def _conditions(obj: TypedObject | Unstructured) -> list[Any]:
    if isinstance(obj, Unstructured):
        return list(obj.get("status", "conditions") or ())
    return list(getattr(getattr(obj, "status", None), "conditions", None) or ())


def _find(conditions: list[Any], type: str) -> Any:
    return next((c for c in conditions if (c.get("type") if isinstance(c, dict) else c.type) == type), None)


def _ensure_conditions(obj: TypedObject | Unstructured) -> list[Any]:
    """Return the list of conditions itself."""
    if isinstance(obj, Unstructured):
        tree = obj.content["status"] = obj.get("status") or {}
        tree["conditions"] = tree.get("conditions") or []
        listed: list[Any] = tree["conditions"]
        return listed
    status = ensure_status(obj)
    if not hasattr(status, "conditions"):
        raise UsageError(
            f"{type(status).__name__} has no list of conditions: add "
            "`conditions: list[Condition] = field(default_factory=list)`"
        )
    if status.conditions is None:
        status.conditions = []
    conditions: list[Any] = status.conditions
    return conditions


def _new_entry(obj: TypedObject | Unstructured, type: str) -> Any:
    """Return an empty condition of the class that the object's list has."""
    if isinstance(obj, Unstructured):
        return {"type": type}
    status = ensure_status(obj)
    declared = next(field.type for field in msgspec.structs.fields(status) if field.name == "conditions")
    entries = msgspec.convert([{"type": type, "status": "Unknown"}], declared)
    return entries[0] if entries else Condition(type=type, status="Unknown")


def _assign(entry: Any, values: dict[str, Any], *, only_existing: bool = False) -> bool:
    """Set fields of a condition, and return whether one changed. Fields that its class lacks are left out."""
    changed = False
    for field, value in values.items():
        if isinstance(entry, dict):
            name, plain = _FIELDS[field], to_builtins(value)
            if entry.get(name) != plain and (not only_existing or name in entry):
                entry[name], changed = plain, True
        elif hasattr(entry, field) and getattr(entry, field) != value:
            setattr(entry, field, value)
            changed = True
    return changed
