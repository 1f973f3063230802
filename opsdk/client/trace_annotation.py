"""Decides which writes carry their trace context as an annotation, and adds it to the body of a request.

Only a write that changes the object anyway carries it. The server stores no update, patch or apply without effect, but
would store one with a new annotation: an object that is written at each reconcile would be reconciled forever. So these
writes are annotated:

* a create;
* an apply of an `Applier` that compared the live object (`Apply.changes`);
* an update or a `MergeFrom` patch that differs from the object as it was read, in more than status and finalizers.

A difference may have no effect either, for example if admission reverts it each time. Therefore, the same difference of
the same object is annotated once in ten minutes.

Upstream: kubernetes/enhancements KEP-5915 (proposed for v1.36)
Deviates: a write is annotated only if it changes the object.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from cachetools import TTLCache
from msgspec.structs import replace

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.object import key_of
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION, is_traceparent
from opsdk.client.operations import Apply, Create, ObjectWrite, PatchObject, Update
from opsdk.client.patch import MergeFrom
from opsdk.errors import BadRequestError, ForbiddenError, InvalidError, UsageError
from opsdk.rest.request import RestRequest
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject
from opsdk.telemetry.records import WriteStarted
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

REFUSALS: Final = (BadRequestError, ForbiddenError, InvalidError)
"""Errors of the server that the annotation may cause. The write had no effect."""

# Heartbeats, and requests in the form of objects, which are not stored.
_UNTRACED_GROUPS: Final = frozenset(
    {"authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"}
)
_VERBS: Final = {Create: "create", Update: "update", PatchObject: "patch", Apply: "apply"}
# Metadata whose change is not an action of its own.
_HOUSEKEEPING: Final = frozenset({"resourceVersion", "finalizers", "managedFields"})
# One entry takes about 200 bytes.
_MAX_CHANGES: Final = 4096
_REPEAT_SECONDS: Final = 600.0
# Kinds, not objects.
_MAX_REFUSED: Final = 256


Change = tuple[GroupVersionKind, ObjectKey, bytes]
"""An object, and the digest of its difference from what was read."""


class AnnotatedWrite(msgspec.Struct, frozen=True):
    """A write that may carry its trace context.

    Attributes:
        record: for the hook.
        change: of an update or a patch; None for another write.
    """

    record: WriteStarted
    change: Change | None


class TraceAnnotator:
    """Adds trace contexts to writes."""

    def __init__(self) -> None:
        self._changes: TTLCache[Change, None] = TTLCache(_MAX_CHANGES, _REPEAT_SECONDS, timer=monotonic)
        self._refused: dict[GroupVersionKind, None] = {}

    def started(self, operation: ObjectWrite) -> AnnotatedWrite | None:
        """Return what a write that may carry its trace context is; None for any other write."""
        gvk = operation.gvk
        if operation.subresource or operation.body is not None or operation.options.dry_run:
            return None
        if gvk.group in _UNTRACED_GROUPS or gvk.group_kind == ("", "Event") or gvk in self._refused:
            return None
        change: Change | None = None
        match operation:
            case Apply() if not operation.changes:
                return None
            case Update() | PatchObject():
                change = _change_of(operation)
                if change is None or change in self._changes:
                    return None
        metadata = operation.obj.metadata
        record = WriteStarted(
            verb=_VERBS[type(operation)],
            group=gvk.group,
            kind=gvk.kind,
            namespace=metadata.namespace,
            name=metadata.name or metadata.generate_name or "",
        )
        return AnnotatedWrite(record, change)

    def annotate(self, write: AnnotatedWrite, request: RestRequest, traceparent: str) -> RestRequest | None:
        """Return the request of a write with the annotation in its body; None if there is nothing to add."""
        if not is_traceparent(traceparent) or not isinstance(request.body, bytes):
            return None
        if write.change is not None:
            self._changes[write.change] = None
        tree: JsonObject = msgspec.json.decode(request.body, type=dict)
        metadata = tree.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), TRACEPARENT_ANNOTATION: traceparent}
        body = msgspec.json.encode({**tree, "metadata": {**metadata, "annotations": annotations}})
        return replace(request, body=body)

    def refused(self, gvk: GroupVersionKind, error: Exception) -> None:
        """The server refused a write with the annotation, and accepted it without: leave it out for this kind."""
        if len(self._refused) < _MAX_REFUSED:
            self._refused[gvk] = None
        log.warning(
            "the server refuses the annotation %s of %s, so its writes carry no trace context from now on: %s",
            TRACEPARENT_ANNOTATION,
            gvk,
            error,
        )

    def __repr__(self) -> str:
        return f"<TraceAnnotator: {len(self._changes)} changes, {len(self._refused)} kinds refuse>"


def _change_of(operation: Update | PatchObject) -> Change | None:
    """Return the change of an update or a patch; None if it is not known, or only status and finalizers."""
    patch = operation.patch if isinstance(operation, PatchObject) else MergeFrom()
    if not isinstance(patch, MergeFrom):
        return None
    try:
        difference: JsonObject = msgspec.json.decode(patch.data(operation.obj), type=dict)
    except (UsageError, *JSON_ERRORS):
        return None  # the object was not read, so its changes are unknown
    metadata = {
        name: value for name, value in (difference.pop("metadata", None) or {}).items() if name not in _HOUSEKEEPING
    }
    difference.pop("status", None)
    if not difference and not metadata:
        return None
    content = msgspec.json.encode((difference, metadata), order="deterministic")
    return operation.gvk, key_of(operation.obj), hashlib.blake2b(content, digest_size=16).digest()
