"""Records the client's writes in the informers of a cache, so that cached reads never go back in time.

Upstream: none; controller-runtime's cached reads may return the state before an own write.
"""

from __future__ import annotations

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.object import PartialObjectMetadata
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.informer import Informer
from opsdk.client.operations import Create, DeleteAllOf, Get, List, ObjectWrite, Operation


class _ObjectMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _StatusDetails(msgspec.Struct):
    uid: str = ""


class _BodyFields(msgspec.Struct, rename="camel"):
    """The fields of a response or request body that the recorder reads."""

    kind: str = ""
    metadata: _ObjectMeta | None = None
    details: _StatusDetails | None = None


class WriteRecorder:
    """Records writes for reads of the cache. See `opsdk.client.ports.WriteObserver`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def written(self, operation: Operation, mapping: RestMapping, *, request: bytes, response: bytes) -> None:
        """Record a successful write.

        Args:
            operation: the write.
            mapping: its resource.
            request: the body that was sent.
            response: the body of the response.
        """
        if isinstance(operation, Get | List) or operation.options.dry_run:
            return
        gvk = mapping.gvk
        namespace = operation.namespace if mapping.namespaced else ""
        informers = [
            (kind, informer)
            for kind in self._cache.kinds()
            if kind.gvk.kind == gvk.kind and kind.gvk.group == gvk.group
            for informer in kind.informers_of(namespace)
        ]
        if not informers:
            return
        if isinstance(operation, ObjectWrite):
            self._record_write(operation, mapping, informers, request=request, response=response)
        elif isinstance(operation, DeleteAllOf):
            for _, informer in informers:
                informer.store.own.unknown_list = True
        else:
            key, answer = ObjectKey(namespace, operation.key.name), _decode(response)
            for kind, informer in informers:
                _record_deletion(informer, key, response, answer, same_version=kind.gvk == gvk)

    def _record_write(
        self,
        operation: ObjectWrite,
        mapping: RestMapping,
        informers: list[tuple[CachedKind, Informer]],
        *,
        request: bytes,
        response: bytes,
    ) -> None:
        namespace = operation.namespace if mapping.namespaced else ""
        # The server makes the name from generateName.
        name = operation.obj.metadata.name or _metadata_of(response).name
        # Nearly all responses are of objects that live.
        if b'"deletionTimestamp"' in response and (uid := _uid_of_deleted(operation, mapping, response)):
            for _, informer in informers:
                informer.store.write_deleted(ObjectKey(namespace, name), uid)
            return
        sole_change = _is_sole_change(operation, request, response)
        only_metadata = isinstance(operation.obj, PartialObjectMetadata)
        for kind, informer in informers:
            whole = kind.metadata_only or not only_metadata
            if kind.gvk == mapping.gvk and whole and operation.subresource in ("", "status"):
                informer.write(response, sole_change=sole_change)
            elif operation.subresource != "token":
                informer.store.own.record_unknown(ObjectKey(namespace, name))

    def missing(self, mapping: RestMapping, key: ObjectKey) -> None:
        """Make the next cached read of the object go to the server: the watch has not shown its deletion yet."""
        if not mapping.namespaced:
            key = key._replace(namespace="")
        for kind in self._cache.kinds():
            if kind.gvk.group_kind == mapping.gvk.group_kind:
                for informer in kind.informers_of(key.namespace):
                    if informer.store.get(key) is not None:
                        informer.store.own.record_unknown(key)


def _record_deletion(
    informer: Informer, key: ObjectKey, response: bytes, answer: _BodyFields, *, same_version: bool
) -> None:
    metadata = answer.metadata
    if answer.kind == "Status" and answer.details is not None and answer.details.uid:
        informer.store.write_deleted(key, answer.details.uid)
    elif (
        same_version
        and metadata is not None
        and metadata.deletion_timestamp is not None
        and (metadata.finalizers or metadata.deletion_grace_period_seconds)
    ):
        # The object waits for its finalizers or its grace period.
        informer.write(response)
    else:
        informer.store.own.record_unknown(key)


def _uid_of_deleted(operation: ObjectWrite, mapping: RestMapping, response: bytes) -> str:
    """Return the uid of an object whose last finalizer the write removed; "" for other writes.

    The server then deletes the object, and returns its last state (registry.Store, deleteWithoutFinalizers). A
    namespace has more finalizers in its spec.
    """
    if operation.subresource not in ("", "status"):
        return ""
    last = _metadata_of(response)
    lives = last.deletion_timestamp is None or last.finalizers or last.deletion_grace_period_seconds
    return "" if lives or mapping.gvk.group_kind == ("", "Namespace") else last.uid


def _is_sole_change(operation: ObjectWrite, request: bytes, response: bytes) -> bool:
    """Whether the resource version of the response surely belongs to this write.

    A write that changes nothing returns the version of an earlier write. Only a create, or a write that sent the
    version before it, excludes that.
    """
    if isinstance(operation, Create) and not operation.subresource:
        return True
    if b'"resourceVersion"' not in request:  # most patches
        return False
    before = _metadata_of(request).resource_version
    return bool(before) and before != _metadata_of(response).resource_version


def _metadata_of(body: bytes) -> _ObjectMeta:
    return _decode(body).metadata or _ObjectMeta()


def _decode(body: bytes) -> _BodyFields:
    try:
        return msgspec.json.decode(body, type=_BodyFields)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _BodyFields()  # a JSON patch, or no JSON at all
