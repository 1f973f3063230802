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
from opsdk.apimachinery.gvk import GroupVersionKind
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
# One entry takes about 200 bytes.
_MAX_CHANGES: Final = 4096
_REPEAT_SECONDS: Final = 600.0
# Kinds, not objects.
_MAX_REFUSED: Final = 256


class TraceAnnotator:
    """Adds trace contexts to writes."""

    def __init__(self) -> None:
        self._changes: TTLCache[tuple[object, ...], None] = TTLCache(_MAX_CHANGES, _REPEAT_SECONDS, timer=monotonic)
        self._refused: dict[GroupVersionKind, None] = {}

    def started(self, operation: ObjectWrite) -> WriteStarted | None:
        """Return the record of a write that may carry its trace context; None for any other write."""
        gvk = operation.gvk
        if operation.subresource or operation.body is not None or operation.options.dry_run:
            return None
        if gvk.group in _UNTRACED_GROUPS or gvk.group_kind == ("", "Event") or gvk in self._refused:
            return None
        if not self._changes_object(operation):
            return None
        metadata = operation.obj.metadata
        return WriteStarted(
            verb=_VERBS[type(operation)],
            group=gvk.group,
            kind=gvk.kind,
            namespace=metadata.namespace,
            name=metadata.name or metadata.generate_name or "",
        )

    def _changes_object(self, operation: ObjectWrite) -> bool:
        """Whether a write changes the object, as far as the client can know."""
        if isinstance(operation, Create):
            return True
        if isinstance(operation, Apply):
            return operation.changes
        if isinstance(operation, PatchObject):
            return isinstance(operation.patch, MergeFrom) and self._is_new(operation, operation.patch)
        return self._is_new(operation, MergeFrom())

    def _is_new(self, operation: ObjectWrite, patch: MergeFrom) -> bool:
        """Whether the difference is an action, and was not annotated lately."""
        try:
            difference: JsonObject = msgspec.json.decode(patch.data(operation.obj), type=dict)
        except (UsageError, *JSON_ERRORS):
            return False  # the object was not read, so its changes are unknown
        metadata = {
            name: value
            for name, value in (difference.pop("metadata", None) or {}).items()
            if name not in ("resourceVersion", "finalizers", "managedFields")
        }
        difference.pop("status", None)
        if not difference and not metadata:
            return False
        content = msgspec.json.encode((difference, metadata), order="deterministic")
        change = (operation.gvk, key_of(operation.obj), hashlib.blake2b(content, digest_size=16).digest())
        if change in self._changes:
            return False
        self._changes[change] = None
        return True

    def annotate(self, request: RestRequest, traceparent: str) -> RestRequest | None:
        """Return the request of a write with the annotation in its body; None if there is nothing to add."""
        if not is_traceparent(traceparent) or not isinstance(request.body, bytes):
            return None
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
