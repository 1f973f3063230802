"""Records the client's writes in the informers of a cache, so that cached reads never go back in time.

Upstream: none; controller-runtime's cached reads may return the state before an own write.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.object import PartialObjectMetadata
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.entry import StoreEntry
from opsdk.cache.head import HeadMeta, decode_head
from opsdk.cache.informer import Informer
from opsdk.cache.own_writes import revision_of
from opsdk.cache.unseen_writes import UnseenWrites
from opsdk.client.activity import OwnChange, record_own_change, record_status_write
from opsdk.client.operations import Create, Delete, DeleteAllOf, Get, List, ObjectWrite, Operation
from opsdk.client.status_writes import is_own_status, status_write
from opsdk.errors import AlreadyExistsError, ApiError, ConflictError, ConnectError, DecodeError, NotFoundError
from opsdk.structured_merge.value import JSON_ERRORS
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# A union in the check would be made for each write.
_READS = (Get, List)
_MAX_FOUND: Final = 1024
"""Kinds and namespaces whose informers are remembered."""


class _ObjectMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _StatusDetails(msgspec.Struct):
    uid: str = ""


class _Preconditions(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    resource_version: str = ""


class _BodyFields(msgspec.Struct, rename="camel"):
    """The fields of a response or request body that the recorder reads."""

    kind: str = ""
    metadata: _ObjectMeta | None = None
    details: _StatusDetails | None = None
    preconditions: _Preconditions = _Preconditions()


class _SentWrite(msgspec.Struct, frozen=True):
    """What the informers had seen when a write was sent.

    Attributes:
        informers: of all versions of the kind that may hold the object.
        generation: `Cache.generation` then.
        lists: how many lists had replaced the content of the informers.
        newest: the highest resource version of the kind.
        entry: the object that is written, as reads showed it.
    """

    informers: list[tuple[CachedKind, Informer]]
    generation: int
    lists: int = 0
    newest: int = 0
    entry: StoreEntry | None = None


class WriteRecorder:
    """Records writes for reads of the cache. See `opsdk.client.ports.WriteObserver`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._unseen = UnseenWrites(cache.options)
        self._found: dict[tuple[GroupVersionKind, str], list[tuple[CachedKind, Informer]]] = {}
        self._found_at = -1
        """The generation of the cache for which `_found` holds."""

    def _informers(self, mapping: RestMapping, namespace: str) -> list[tuple[CachedKind, Informer]]:
        """Return the informers of all versions of a kind that may hold objects of a namespace, not to be changed."""
        if self._found_at != self._cache.generation or len(self._found) > _MAX_FOUND:
            self._found.clear()
            self._found_at = self._cache.generation
        scope = (mapping.gvk, namespace)
        informers = self._found.get(scope)
        if informers is None:
            informers = self._found[scope] = self._find_informers(mapping, namespace)
        return informers

    def _find_informers(self, mapping: RestMapping, namespace: str) -> list[tuple[CachedKind, Informer]]:
        gvk = mapping.gvk
        return [
            (kind, informer)
            for kind in self._cache.kinds()
            if kind.gvk.kind == gvk.kind and kind.gvk.group == gvk.group
            for informer in kind.informers_of(namespace if mapping.namespaced else "")
        ]

    def sending(self, operation: Operation, mapping: RestMapping) -> _SentWrite:
        """Return what the informers of the kind have seen until now."""
        namespace = operation.namespace
        informers = self._informers(mapping, namespace)
        newest, lists, entry = 0, 0, None
        for _, informer in informers:
            store = informer.store
            lists += store.lists
            if (revision := store.newest_revision) >= newest:
                newest = revision
                if isinstance(operation, ObjectWrite) and (name := operation.obj.metadata.name):
                    entry = store.get(ObjectKey(namespace if mapping.namespaced else "", name))
        return _SentWrite(informers, self._cache.generation, lists, newest, entry)

    def written(
        self, operation: Operation, mapping: RestMapping, *, request: bytes, response: bytes, sent: _SentWrite
    ) -> None:
        """Record a successful write.

        Args:
            operation: the write.
            mapping: its resource.
            request: the body that was sent.
            response: the body of the response.
            sent: what `sending` returned before the request.
        """
        if isinstance(operation, _READS) or operation.options.dry_run:
            return
        informers = sent.informers
        if sent.generation != self._cache.generation:  # its first list may be older than the write
            informers = self._informers(mapping, operation.namespace)
        if self._unseen.possible and isinstance(operation, ObjectWrite) and not _hold_all(informers):
            self._check_seen(operation, mapping, response)
        if not informers:
            return
        try:
            if isinstance(operation, ObjectWrite):
                self._record_write(operation, mapping, informers, request=request, response=response, sent=sent)
            elif isinstance(operation, DeleteAllOf):
                for _, informer in informers:
                    informer.store.own.record_all_unknown()
            else:
                key, answer = _key_of(operation, mapping), _decode(response)
                for kind, informer in informers:
                    _record_deletion(informer, key, response, answer, same_version=kind.gvk == mapping.gvk)
        except Exception:
            # The write has succeeded, so the caller must not get this error. The next read asks the server.
            log.exception("the result of a write to %s could not be recorded for cached reads", mapping.gvk)
            _record_unknown(operation, mapping, informers)

    def _check_seen(self, operation: ObjectWrite, mapping: RestMapping, response: bytes) -> None:
        """Report a write that the cache leaves out. A subresource with an object of its own is not the object."""
        if operation.subresource not in ("", "status"):
            return
        try:
            meta = decode_head(response).metadata
        except DecodeError:
            return  # reported where the response is decoded for the caller
        key = ObjectKey(operation.namespace if mapping.namespaced else "", meta.name)
        self._unseen.check(self._cache.kinds(), mapping.gvk.group_kind, key, meta)

    def _record_write(
        self,
        operation: ObjectWrite,
        mapping: RestMapping,
        informers: list[tuple[CachedKind, Informer]],
        *,
        request: bytes,
        response: bytes,
        sent: _SentWrite,
    ) -> None:
        """Record a successful write in each informer. A response without the whole object leaves it unknown."""
        gvk, subresource = mapping.gvk, operation.subresource
        if subresource == "token":
            return
        meta = decode_head(response).metadata
        # The server makes the name from generateName.
        key = ObjectKey(operation.namespace if mapping.namespaced else "", operation.obj.metadata.name or meta.name)
        if meta.deletion_timestamp is not None and _is_gone(operation, mapping, meta, response):
            for _, informer in informers:
                informer.store.write_deleted(key, meta.uid)
            return
        # A write that changes nothing returns the version of an earlier write. Only a create, or a write that sent the
        # version before it, excludes that.
        before, after = _version_in(request), meta.resource_version
        sole_change = before not in ("", after) or (isinstance(operation, Create) and not subresource)
        if subresource == "status":
            if sole_change:
                record_own_change(OwnChange(gvk.group, gvk.kind, key, before, after))
            if not is_own_status(operation):
                former = None if sent.entry is None else partial(getattr, sent.entry, "data")
                record_status_write(status_write, operation, gvk, key, (request, response), former)
        at_least = _least_revision(sent, sole_change=sole_change)
        only_metadata = isinstance(operation.obj, PartialObjectMetadata)
        for kind, informer in informers:
            whole = kind.metadata_only or not only_metadata
            if kind.gvk == gvk and whole and subresource in ("", "status"):
                informer.own_writes.record(response, meta, sole_change=sole_change, at_least=at_least)
                continue
            version = after
            if (revision_of(version) or at_least) < at_least:
                informer.on_rollback(version)
                version = ""  # the watch may have passed a higher one
            informer.store.write_unknown(key, version)

    def failed(self, operation: Operation, mapping: RestMapping, *, request: bytes, error: BaseException) -> None:
        """Record a write that raised: the server may have carried it out, or know more than the cache.

        Args:
            operation: the write.
            mapping: its resource.
            request: the body that was sent.
            error: the error of the write. Without an answer, or with 5xx, the outcome is not known.
        """
        if isinstance(operation, _READS) or operation.options.dry_run:
            return
        if isinstance(error, NotFoundError):
            if not isinstance(operation, DeleteAllOf):
                self.missing(mapping, _key_of(operation, mapping))
        elif isinstance(error, ConflictError | AlreadyExistsError):
            key = _key_of(operation, mapping)
            # The server makes another name at the next try of a create with generateName.
            for _, informer in self._informers(mapping, key.namespace) if key.name else ():
                if _is_outdated(informer.store.get(key), request, error):
                    informer.store.write_unknown(key)
        elif not _is_rejection(error):
            _record_unknown(operation, mapping, self._informers(mapping, operation.namespace))

    def missing(self, mapping: RestMapping, key: ObjectKey) -> None:
        """Make the next cached read of the object go to the server: the watch has not shown its deletion yet."""
        if not mapping.namespaced:
            key = key._replace(namespace="")
        for _, informer in self._informers(mapping, key.namespace):
            if informer.store.get(key) is not None:
                informer.store.write_unknown(key)


def _hold_all(informers: list[tuple[CachedKind, Informer]]) -> bool:
    """Whether one of the informers holds all objects of its namespace."""
    for _, informer in informers:
        labels, fields = informer.options.label_selector, informer.options.field_selector
        if not (labels.requirements or labels.nothing or fields.requirements or fields.nothing):
            return True
    return False


def _lists_of(informers: list[tuple[CachedKind, Informer]]) -> int:
    """Return how many lists have replaced the content of the informers."""
    lists = 0
    for _, informer in informers:
        lists += informer.store.lists
    return lists


def _least_revision(sent: _SentWrite, *, sole_change: bool) -> int:
    """Return the lowest resource version that the response to a write has, unless the server went back in the meantime.

    A write that changes nothing returns the object's version. A change gets a version above all others of its kind.
    """
    if sent.lists != _lists_of(sent.informers):
        return 0  # the list has shown it, if the server went back
    if sole_change:
        return sent.newest + 1
    return 0 if sent.entry is None else revision_of(sent.entry.resource_version) or 0


def _key_of(operation: ObjectWrite | Delete | DeleteAllOf, mapping: RestMapping) -> ObjectKey:
    """Return the key of the object; without a name for many objects, and for one that the server names."""
    if isinstance(operation, ObjectWrite):
        name = operation.obj.metadata.name
    else:
        name = operation.key.name if isinstance(operation, Delete) else ""
    return ObjectKey(operation.namespace if mapping.namespaced else "", name)


def _record_unknown(
    operation: ObjectWrite | Delete | DeleteAllOf, mapping: RestMapping, informers: list[tuple[CachedKind, Informer]]
) -> None:
    key = _key_of(operation, mapping)
    for _, informer in informers:
        if key.name:
            informer.store.write_unknown(key)
        else:
            informer.store.own.record_all_unknown()


def _is_rejection(error: BaseException) -> bool:
    """Whether the server has certainly not carried out the write that raised this error."""
    return isinstance(error, ConnectError) or (isinstance(error, ApiError) and 400 <= error.code < 500)


def _is_outdated(entry: StoreEntry | None, request: bytes, error: ApiError) -> bool:
    """Whether a conflict shows that the cached object is not the server's."""
    if isinstance(error, AlreadyExistsError):
        return entry is None
    sent = _decode(request)
    version = (sent.metadata or _ObjectMeta()).resource_version or sent.preconditions.resource_version
    if entry is None:
        return False
    return entry.resource_version == version or entry.uid == sent.preconditions.uid


def _record_deletion(
    informer: Informer, key: ObjectKey, response: bytes, answer: _BodyFields, *, same_version: bool
) -> None:
    """Record a successful delete: the object is gone, waits for finalizers, or is not known."""
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
        informer.own_writes.record(response)
    else:
        informer.store.write_unknown(key)


def _is_gone(operation: ObjectWrite, mapping: RestMapping, meta: HeadMeta, response: bytes) -> bool:
    """Whether a write removed the last finalizer of an object that is being deleted.

    The server then deletes the object, and returns its last state (registry.Store, deleteWithoutFinalizers). A
    namespace has more finalizers in its spec.
    """
    if operation.subresource not in ("", "status") or meta.finalizers or not meta.uid:
        return False
    if mapping.gvk.group_kind == ("", "Namespace"):
        return False
    return not (_decode(response).metadata or _ObjectMeta()).deletion_grace_period_seconds


def _version_in(request: bytes) -> str:
    """Return the resource version that a write sent; empty without one."""
    if b'"resourceVersion"' not in request:  # most patches
        return ""
    return (_decode(request).metadata or _ObjectMeta()).resource_version


def _decode(body: bytes) -> _BodyFields:
    try:
        return msgspec.json.decode(body, type=_BodyFields)
    except JSON_ERRORS:
        return _BodyFields()  # a JSON patch, or no JSON at all
