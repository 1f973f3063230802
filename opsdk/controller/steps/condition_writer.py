"""Writes one condition of an object's status, if it differs."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from opsdk.apimachinery.kinds import Kind, as_unstructured
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, TypedObject, status_class, to_dict
from opsdk.base.place import caller_place
from opsdk.children.memory import Memory
from opsdk.client.activity import recorded_conditions, recorded_status_writes
from opsdk.client.patch import PatchType
from opsdk.client.status_writes import OwnStatusPatch, ShownCondition, sent_condition
from opsdk.controller.context import Context
from opsdk.errors import ConflictError, NotFoundError, UsageError
from opsdk.recipes.conditions import place_condition

CONDITION_TYPE: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""metav1.Condition's type."""
# Objects whose condition is remembered as opsdk's.
_MAX_WRITTEN = 10_000
# What opsdk writes, as reason and message: of children, of successes, of the API, and the classes of exceptions.
_OWN_TEXT: Final = re.compile(
    r"Ready\n(?:\d+ of \d+ children are ready|the last reconcile succeeded)"
    r"|Succeeded\nthe last reconcile succeeded"
    r"|(?:Waiting|ChildFailed|Deleting)\n(?:\d+ child(?:ren)? comes? after|(?:[A-Z]\w* [^\s;]+?|[a-z_]\w*)(?:[:;] .*)?)"
    r"|(?:RetryLimitExceeded|NotFound|AlreadyExists|Conflict|Forbidden|Invalid|Unauthorized|Timeout|ServerTimeout"
    r"|TooManyRequests|BadRequest|ServiceUnavailable|Gone|Expired|\w*(?:Error|Exception))\n.*",
    re.DOTALL,
)
# Writes of the condition, each from a newer state of the object.
_TRIES = 4


def is_own_text(reason: str, message: str) -> bool:
    """Whether opsdk may have written a condition. The message of an error is any text, so there the reason decides.

    >>> is_own_text("Waiting", "Deployment default/web: 1 of 3 replicas"), is_own_text("Waiting", "no quota is left")
    (True, False)
    >>> is_own_text("Ready", "2 of 2 children are ready"), is_own_text("Ready", "serves 3 hosts")
    (True, False)
    """
    return _OWN_TEXT.fullmatch(f"{reason}\n{message}") is not None


class DesiredCondition(msgspec.Struct, frozen=True):
    """A condition to write.

    Attributes:
        status: ``"True"`` or ``"False"``.
        reason: one CamelCase word.
        message: a sentence, not empty: the server requires it.
    """

    status: str
    reason: str
    message: str

    def is_shown_by(self, existing: Condition | None, generation: int) -> bool:
        """Whether a write would change nothing.

        A condition that is False already stays as it is, and an object without one needs none that is False.
        """
        if self.status == "False":
            return existing is None or existing.status == "False"
        return existing is not None and (existing.status, existing.reason, existing.message) == (
            self.status,
            self.reason,
            self.message,
        )


class ConditionWriter:
    """Writes a condition that opsdk keeps in addition to those of the reconciler.

    Args:
        kind: the reconciled kind.
        condition: the condition's type.
    """

    def __init__(self, kind: Kind[AnyObject], condition: str) -> None:
        # An object that its class cannot decode gets its conditions too.
        self._kind = as_unstructured(kind)
        self._condition = condition
        self._written: Memory[str, ShownCondition] = Memory(_MAX_WRITTEN)

    async def write(self, ctx: Context, desired: DesiredCondition, *, obj: Any = None) -> None:
        """Write the condition unless the object shows it; after a conflict, to a newer state of the object.

        Args:
            ctx: of the reconcile.
            desired: the condition.
            obj: the object, which gets the written state; None reads it from the cache.

        Nothing is written if the reconciler has set the condition in this pass, with opsdk's functions or in a request.
        """
        if self._condition in recorded_conditions():
            return
        for attempt in range(_TRIES):
            if obj is None:
                obj = await ctx.client.get_or_none(self._kind, ctx.request.key, uncached=attempt > 0)
            if obj is None or (patch := self._patch(ctx, obj, desired)) is None:
                return
            try:
                await ctx.client.status().patch(obj, patch)
            except NotFoundError:
                return
            except ConflictError:
                if attempt + 1 == _TRIES:
                    raise
                obj = None
            else:
                self._written.remember(obj.metadata.uid, (desired.status, desired.reason, desired.message))
                return

    def _patch(self, ctx: Context, obj: Any, desired: DesiredCondition) -> OwnStatusPatch | None:
        """Return the patch that sets the condition; None if the object shows it, or the reconciler has set it."""
        # As a tree: items of other controllers keep fields that opsdk's `Condition` does not have.
        conditions = (to_dict(obj).get("status") or {}).get("conditions") or []
        types = [item.get("type") for item in conditions]
        place = types.index(self._condition) if self._condition in types else len(types)
        own = [msgspec.convert(item, Condition) for item in conditions[place : place + 1]]
        generation = obj.metadata.generation
        if desired.is_shown_by(own[0] if own else None, generation) or self._is_sent(ctx, obj.metadata.uid):
            return None
        condition = Condition(
            type=self._condition,
            status=desired.status,
            reason=desired.reason,
            message=desired.message,
            observed_generation=generation,
        )
        place_condition(own, condition)
        conditions[place : place + 1] = to_builtins(own)
        body = {"metadata": {"resourceVersion": obj.metadata.resource_version}, "status": {"conditions": conditions}}
        return OwnStatusPatch(PatchType.MERGE, body)

    def _is_sent(self, ctx: Context, uid: str) -> bool:
        """Whether a request of the reconciler has set the condition.

        A request with the whole list has the condition of opsdk too, as it was read.
        """
        gvk = self._kind.gvk
        sent = sent_condition(recorded_status_writes(gvk.group, gvk.kind, ctx.request.key), self._condition)
        if sent is None or sent.changed:
            return sent is not None
        if uid in self._written:
            return sent.condition != self._written[uid]
        # A former process has written it, or the reconciler in an earlier pass: the text tells which.
        return not is_own_text(*sent.condition[1:])

    def __repr__(self) -> str:
        return f"<ConditionWriter of {self._kind.name}: {self._condition}>"


def check_condition(kind: Kind[AnyObject], condition: str, option: str) -> None:
    """Raise `UsageError` for a condition of a class whose status has no list of conditions. `option` names it."""
    cls: type[Any] = kind.representation
    if not condition or not issubclass(cls, TypedObject | PartialObjectMetadata):
        return
    status = status_class(cls) if issubclass(cls, TypedObject) else None
    if status is None or "conditions" not in getattr(status, "__struct_fields__", ()):
        raise UsageError(
            f"{caller_place()}: {option}={condition!r} needs conditions in the status of {kind.name}: add "
            "`conditions: list[Condition] = field(default_factory=list)`"
        )
