"""Keeps the spec that was last reconciled successfully, so that a reconciler can ask what has changed.

Upstream: none; kopf's annotation ``last-handled-configuration`` has this purpose.
"""

from __future__ import annotations

import re
from types import NoneType
from typing import Any, Final, get_origin

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, TypedObject, Unstructured, status_class, to_dict, without_nulls
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.base.closest_name import closest_name
from opsdk.client.activity import OwnChange, record_own_change
from opsdk.client.patch import merge_patch
from opsdk.controller.annotations import controller_annotation
from opsdk.controller.context import Context
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.spec_comparison import SpecComparison, fields_of, members_of, spec_class
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.errors import ConflictError, NotFoundError, UsageError
from opsdk.recipes.finalizers import is_deleting
from opsdk.structured_merge.value import JsonObject

ANNOTATION: Final = "annotation"
PLACE: Final = re.compile(r"annotation|status\.[A-Za-z_]\w*")
"""The values of the option ``last_reconciled``."""
MAX_BYTES: Final = 64 * 1024
"""Largest spec that is kept, as JSON. All annotations of an object may have 256 KiB."""
TOO_LARGE: Final = "SpecTooLarge"
"""Reason of the Event for a larger one."""

_TOO_LARGE_TEXT = "too large"
# Writes of the record, each from a newer state of the object.
_TRIES = 4


def annotation_of(controller: str) -> str:
    """Return the annotation of a controller. Two controllers of one kind have one each.

    >>> annotation_of("site")
    'opsdk.dev/last-reconciled.site'
    """
    return controller_annotation("last-reconciled", controller)


class SpecRecorder:
    """Reads the record of an object when its reconcile begins, and writes it after its success.

    In the chain with the option ``last_reconciled``.

    Args:
        kind: the reconciled kind.
        place: ``annotation``, or ``status.`` and the name of a field.
        controller: name of the controller.
    """

    def __init__(self, kind: Kind[AnyObject], place: str, controller: str) -> None:
        check_place(kind, place)
        self._kind = kind
        cls: type[Any] = kind.representation
        self._cls = cls if issubclass(cls, TypedObject) else None
        self._annotation = annotation_of(controller) if place == ANNOTATION else ""
        self._field = "" if place == ANNOTATION else _status_field(self._cls, place.partition(".")[2])

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        if (obj := await work.read()) is not None:
            self.begin(work.ctx, obj)
        attempt = await proceed(work)
        await self.write(work.ctx)
        return attempt

    def begin(self, ctx: Context, obj: AnyObject) -> None:
        """Give the context the record and the present spec of an object."""
        tree = to_dict(obj)
        ctx.specs = SpecComparison(self._cls, obj.metadata.uid, self._record(tree), tree.get("spec") or {})

    async def write(self, ctx: Context) -> None:
        """Write the spec of a successful reconcile, unless the object has it, or a child is not ready yet.

        Raises the error of a write that failed.
        """
        if (specs := ctx.specs) is None or ctx.progress.unready():
            return
        size = len(msgspec.json.encode(specs.present))
        for attempt in range(_TRIES):
            obj: Any = await ctx.client.get_or_none(self._kind, ctx.request.key, uncached=attempt > 0)
            if obj is None or obj.metadata.uid != specs.uid or is_deleting(obj):
                return
            patch = self._patch(to_dict(obj), specs.present if size <= MAX_BYTES else None)
            if patch is None:
                return
            try:
                await self._send(ctx, obj, patch)
            except NotFoundError:
                return
            except ConflictError:
                if attempt + 1 == _TRIES:
                    raise
            else:
                if size > MAX_BYTES:
                    note = f"the spec has {size} bytes, more than {MAX_BYTES}: what changes in it is not recorded"
                    ctx.event(TOO_LARGE, note, type="Warning", regarding=obj, action="Reconcile")
                return

    async def _send(self, ctx: Context, obj: Any, patch: JsonObject) -> None:
        """Patch the object if it still has its resource version, so that the event is known to be this write alone."""
        before = obj.metadata.resource_version
        patch.setdefault("metadata", {})["resourceVersion"] = before
        if self._field:
            await ctx.client.status().patch(obj, merge_patch(patch))
            return
        await ctx.client.patch(obj, merge_patch(patch))
        gvk, key = self._kind.gvk, ObjectKey(*ctx.request.key)
        record_own_change(OwnChange(gvk.group, gvk.kind, key, before, obj.metadata.resource_version))

    def _record(self, tree: JsonObject) -> JsonObject | None:
        """Return the recorded spec; None for none, for one that was too large, and for one that was tampered with."""
        if self._field:
            record = (tree.get("status") or {}).get(self._field)
        else:
            text = (tree["metadata"].get("annotations") or {}).get(self._annotation, "")
            try:
                record = msgspec.json.decode(text)
            except (msgspec.DecodeError, TypeError):
                record = None
        return record if isinstance(record, dict) else None

    def _patch(self, tree: JsonObject, spec: JsonObject | None) -> JsonObject | None:
        """Return the patch that records a spec, or with None that it is too large; None if the object has it."""
        if self._field:
            record = (tree.get("status") or {}).get(self._field)
            # A null in a merge patch removes its key, so a null of the spec would be written repeatedly.
            desired = without_nulls(spec or {})
            difference = create_merge_patch(record if isinstance(record, dict) else {}, desired)
            is_recorded = isinstance(record, dict) and not difference
            return None if is_recorded else {"status": {self._field: difference}}
        annotations = tree["metadata"].get("annotations") or {}
        if spec is None:
            text = _TOO_LARGE_TEXT
            is_recorded = annotations.get(self._annotation) == text
        else:
            text = msgspec.json.encode(spec, order="sorted").decode()
            is_recorded = self._record(tree) == spec
        return None if is_recorded else {"metadata": {"annotations": {self._annotation: text}}}

    def __repr__(self) -> str:
        return f"<SpecRecorder of {self._kind.name} in {self._annotation or f'status.{self._field}'}>"


def check_place(kind: Kind[AnyObject], place: str) -> None:
    """Raise `UsageError` for a kind without a spec, or without the field of the status that the option names."""
    cls: type[Any] = kind.representation
    if not place or issubclass(cls, Unstructured):
        return
    if not issubclass(cls, TypedObject) or spec_class(cls) in (None, NoneType):
        raise UsageError(f"last_reconciled={place!r} needs a spec, and {kind.name} has none")
    if place != ANNOTATION:
        _status_field(cls, place.partition(".")[2])


def _status_field(cls: type[TypedObject] | None, name: str) -> str:
    """Return the JSON name of a field of the status."""
    if cls is None:
        return name
    status = status_class(cls)
    fields = {field.name: field for field in fields_of(status)} if status is not None else {}
    wire = {field.encode_name: field.name for field in fields.values()}
    attribute = name if name in fields else wire.get(name, "")
    if not attribute:
        close = closest_name(name, fields)
        remedy = f"did you mean status.{close}?" if close else f"add `{name}: JsonObject | None = None`"
        raise UsageError(f"last_reconciled='status.{name}': the status of {cls.__name__} has no {name!r}: {remedy}")
    allowed = [*members_of(spec_class(cls)), dict]
    if not any(part in allowed or get_origin(part) is dict for part in members_of(fields[attribute].type)):
        raise UsageError(
            f"last_reconciled='status.{name}': the field holds a spec: declare it as `{name}: JsonObject | None = None`"
        )
    encoded: str = fields[attribute].encode_name
    return encoded
