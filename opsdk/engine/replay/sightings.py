"""The versions of each object that an operator received in a recording, and which of them its own writes made. Pure.

Watches, lists and responses of writes show versions. Only what a watch or its lists show is an event of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apiserver.endpoints.request_info import RequestInfo, parse_request
from opsdk.engine.replay.timeline import Checkpoint, RecordedExchange, Timeline
from opsdk.engine.request_kinds import changes_state
from opsdk.engine.writes import Ref
from opsdk.errors import DecodeError
from opsdk.http.server.request import Query
from opsdk.recording.open_exchanges import collection_of, is_watch
from opsdk.recording.records import ExchangeBegan, Received, Responded
from opsdk.rest.frames import FrameSplitter
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = ["ObjectSightings", "Sighting", "Sightings", "sightings_of"]

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_PARTIAL: Final = "PartialObjectMetadata"
_WHOLE: Final = ("", "status")
"""Subresources whose responses have the whole object."""


@dataclass(slots=True, eq=False, kw_only=True)
class Sighting:
    """A version of an object.

    Attributes:
        revision: its resource version.
        tree: the object; None if it was removed.
        first: the iteration in which the operator received it first.
        event: the iteration in which a watch or a list showed it; None if none did.
        initial: it is part of the first list of its collection.
    """

    revision: int
    tree: JsonObject | None
    first: int
    event: int | None = None
    initial: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class ObjectSightings:
    """All versions of one object, by its uid.

    Attributes:
        uid: of the object.
        versions: by their revision.
        created: a write of the operator created it.
        deleted: iterations of deletions that the operator sent.
        written: the operator's writes by the revision that they made.
        unsure: the operator's writes without a response: the server may have made them.
    """

    uid: str
    versions: dict[int, Sighting] = field(default_factory=dict)
    created: bool = False
    deleted: list[int] = field(default_factory=list)
    written: dict[int, ExchangeBegan] = field(default_factory=dict)
    unsure: list[ExchangeBegan] = field(default_factory=list)

    def ordered(self) -> Sequence[Sighting]:
        """Return the versions in the order of their revisions."""
        return [self.versions[revision] for revision in sorted(self.versions)]


@dataclass(slots=True, eq=False, kw_only=True)
class Sightings:
    """What a recording shows of objects.

    Attributes:
        objects: by uid.
        managers: field managers that requests of the operator name.
    """

    objects: Mapping[str, ObjectSightings]
    managers: frozenset[str]


class _Message(NamedTuple):
    """A complete message of an exchange, at its place among all records."""

    iteration: int
    place: int
    exchange: RecordedExchange
    info: RequestInfo
    status: int
    body: bytes


def sightings_of(timeline: Timeline) -> Sightings:
    """Return what a recording shows of objects. The timeline must not be used up by a replay."""
    exchanges = list(timeline.exchanges)
    if timeline.checkpoint is not None:
        # Watches that were open then. The other exchanges are answers for a start.
        exchanges += [
            each
            for each in timeline.checkpoint.exchanges
            if isinstance(each.request, ExchangeBegan) and is_watch(each.request)
        ]
    servers = [each.request.server for each in exchanges if isinstance(each.request, ExchangeBegan)]
    walker = _Walker(servers[0] if servers else "", urlsplit(timeline.began.host).path)
    messages = [message for exchange in exchanges for message in walker.messages_of(exchange)]
    if timeline.checkpoint is not None:
        walker.begin_with(timeline.checkpoint)
    for message in sorted(messages, key=lambda each: (each.iteration, each.place)):
        walker.add(message)
    return Sightings(objects=walker.objects, managers=frozenset(walker.managers))


@dataclass(slots=True, eq=False)
class _Scope:
    """What a list and its watch cover.

    Attributes:
        uids: the uids of its objects by name.
        listed: names of the list that is being read; None between lists.
        is_synced: it has had a whole list.
        listing: the last watch that began with a list.
    """

    uids: dict[Ref, str] = field(default_factory=dict)
    listed: set[Ref] | None = None
    is_synced: bool = False
    listing: RecordedExchange | None = None


class _Walker:
    """Goes through the messages of a recording in their order.

    Args:
        server: of the operator's cluster; messages of other ones are left out.
        base_path: of the server.
    """

    def __init__(self, server: str, base_path: str) -> None:
        self._server, self._base_path = server, base_path
        self.objects: dict[str, ObjectSightings] = {}
        self.managers: set[str] = set()
        self._uids: dict[Ref, str] = {}
        self._scopes: dict[str, _Scope] = {}

    def begin_with(self, checkpoint: Checkpoint) -> None:
        """Take the objects of the caches at a checkpoint."""
        for cached in checkpoint.collections:
            collection, gvk = cached.informer.collection, GroupVersionKind(*cached.informer.gvk)
            scope = self._scopes.get(collection)
            if scope is None or cached.informer.metadata_only:
                continue
            scope.is_synced = True
            iteration = checkpoint.began.iteration
            request = ExchangeBegan(iteration, 0, self._server, "GET", f"{self._base_path}{collection}")
            info = parse_request("GET", collection.partition("?")[0], Query())
            message = _Message(iteration, 0, RecordedExchange(request, 0), info, 200, b"")
            for item in cached.items:
                tree = {"apiVersion": gvk.api_version, "kind": gvk.kind, **_decoded(item)}
                if _is_whole(tree):
                    name = _name_of(info, tree)
                    scope.uids[name] = str(tree["metadata"]["uid"])
                    self._see(name, tree, message, initial=False)

    def messages_of(self, exchange: RecordedExchange) -> Iterator[_Message]:
        """Yield the messages of an exchange, as far as they are about objects."""
        request = exchange.request
        if not isinstance(request, ExchangeBegan) or request.server != self._server:
            return
        path, _, query_text = request.target.removeprefix(self._base_path).partition("?")
        query = Query(query_text)
        info = parse_request(request.method, path, query)
        if not info.is_resource or "dryRun" in query:
            return
        status = next((each.status for _, each in exchange.outcomes if isinstance(each, Responded)), 0)
        received = [(place, each) for place, each in exchange.outcomes if isinstance(each, Received)]
        message = partial(_Message, exchange=exchange, info=info, status=status)
        if info.verb == "watch":
            self._scopes.setdefault(self._collection(request), _Scope())
            splitter = FrameSplitter()
            for place, part in received:
                for frame in _frames(splitter, part.data):
                    yield message(part.iteration, place, body=frame)
        elif changes_state(request.method, path):
            if manager := query.get("fieldManager"):
                self.managers.add(manager)
            if received and 0 < status < 500:
                place, last = received[-1]
                yield message(last.iteration, place, body=b"".join(part.data for _, part in received))
            else:
                # The server may have made the change.
                yield message(request.iteration, -1, body=b"")
        elif info.verb == "list" and received:
            place, last = received[-1]
            yield message(last.iteration, place, body=b"".join(part.data for _, part in received))

    def add(self, message: _Message) -> None:
        """Take a message."""
        tree = _decoded(message.body)
        if message.info.verb == "watch":
            self._add_event(message, tree)
        elif message.info.verb == "list":
            self._add_list(message, tree)
        elif 200 <= message.status < 300:
            self._add_write(message, tree)
        elif message.place < 0:
            self._add_unsure(message)

    # -------------------------------------------------------------- watches and lists
    def _scope_of(self, message: _Message) -> _Scope | None:
        request = message.exchange.request
        assert isinstance(request, ExchangeBegan)
        return self._scopes.get(self._collection(request))

    def _collection(self, request: ExchangeBegan) -> str:
        return collection_of(request.target.removeprefix(self._base_path))

    def _add_event(self, message: _Message, event: JsonObject) -> None:
        scope, tree = self._scope_of(message), event.get("object")
        if scope is None or not isinstance(tree, dict):
            return
        kind = event.get("type")
        if kind == "BOOKMARK":
            if str(tree.get("kind")) != _PARTIAL and _INITIAL_EVENTS_END in (
                (tree.get("metadata") or {}).get("annotations") or {}
            ):
                self._end_list(scope, message, _revision(tree, message))
            return
        if kind not in ("ADDED", "MODIFIED", "DELETED") or not _is_whole(tree):
            return
        if message.exchange is not scope.listing and "sendInitialEvents=true" in _target(message):
            scope.listed, scope.listing = set(), message.exchange
        name, uid = _name_of(message.info, tree), str(tree["metadata"]["uid"])
        if kind == "DELETED":
            scope.uids.pop(name, None)
            self._remove(name, uid, _revision(tree, message), message)
            return
        self._enter(scope, name, uid, message)
        if scope.listed is not None:
            scope.listed.add(name)
        self._see(name, tree, message, initial=not scope.is_synced)

    def _add_list(self, message: _Message, tree: JsonObject) -> None:
        scope, items = self._scope_of(message), tree.get("items")
        if scope is None or not isinstance(items, list) or str(tree.get("kind")).startswith(_PARTIAL):
            return
        if scope.listed is None or "continue=" not in _target(message):
            scope.listed = set()
        head = {"apiVersion": tree.get("apiVersion"), "kind": str(tree.get("kind", "")).removesuffix("List")}
        for item in items:
            whole = {**head, **item} if isinstance(item, dict) else {}
            if not _is_whole(whole):
                continue
            name = _name_of(message.info, whole)
            scope.listed.add(name)
            self._enter(scope, name, str(whole["metadata"]["uid"]), message)
            self._see(name, whole, message, initial=not scope.is_synced)
        if not (tree.get("metadata") or {}).get("continue"):
            self._end_list(scope, message, _revision(tree, message))

    def _enter(self, scope: _Scope, name: Ref, uid: str, message: _Message) -> None:
        """Note that a list or a watch has an object. One of the same name before it was removed."""
        before = scope.uids.get(name, uid)
        scope.uids[name] = uid
        if before != uid:
            self._remove(name, before, max(self.objects[before].versions), message)

    def _end_list(self, scope: _Scope, message: _Message, revision: int) -> None:
        """Remove what a whole list lacks."""
        listed, scope.listed, scope.is_synced = scope.listed or set(), None, True
        for name in [name for name in scope.uids if name not in listed]:
            uid = scope.uids[name]
            if max(self.objects[uid].versions) <= revision:
                del scope.uids[name]
                self._remove(name, uid, revision, message)

    def _see(self, name: Ref, tree: JsonObject, message: _Message, *, initial: bool) -> None:
        sightings = self._sightings(name, str(tree["metadata"]["uid"]))
        version = self._version(sightings, _revision(tree, message), tree, message.iteration)
        if version.event is None and version.tree is not None:
            version.event, version.initial = message.iteration, initial

    def _remove(self, name: Ref, uid: str, revision: int, message: _Message) -> None:
        if any(scope.uids.get(name) == uid for scope in self._scopes.values()):
            return  # it left a selector only
        sightings = self._sightings(name, uid)
        # The event of a removal may have the revision of the last version.
        revision = max(revision, max(sightings.versions, default=0) + 1)
        sightings.versions[revision] = Sighting(
            revision=revision, tree=None, first=message.iteration, event=message.iteration
        )

    # -------------------------------------------------------------- the operator's writes
    def _add_write(self, message: _Message, tree: JsonObject) -> None:
        request, info = message.exchange.request, message.info
        assert isinstance(request, ExchangeBegan)
        if request.method == "DELETE" and not info.subresource:
            for name, uid in self._deleted_objects(message, tree):
                self._sightings(name, uid).deleted.append(request.iteration)
        metadata = tree.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("uid") or info.subresource not in ("scale", *_WHOLE):
            return
        name = _name_of(info, tree)
        sightings, revision = self._sightings(name, str(metadata["uid"])), _revision(tree, message)
        version = sightings.versions.get(revision)
        if version is None or version.first >= request.iteration:
            # A write without effect returns a version that may be known already.
            sightings.written.setdefault(revision, request)
        if info.subresource in _WHOLE and _is_whole(tree):
            self._version(sightings, revision, tree, message.iteration)
        sightings.created |= message.status == 201 and not info.subresource

    def _deleted_objects(self, message: _Message, tree: JsonObject) -> Iterator[tuple[Ref, str]]:
        """Yield the names and uids of what the response to a deletion names."""
        info = message.info
        if isinstance(items := tree.get("items"), list):
            yield from ((_name_of(info, item), str(item["metadata"]["uid"])) for item in items)
        elif info.name:
            last = self._uids.get(_path_name(info), "")
            uid = (tree.get("metadata") or {}).get("uid") or (tree.get("details") or {}).get("uid") or last
            yield _path_name(info), str(uid)
        else:
            yield from [
                (name, uid)
                for name, uid in self._uids.items()
                if (name.group, name.resource) == (info.group, info.resource) and info.namespace in ("", name.namespace)
            ]

    def _add_unsure(self, message: _Message) -> None:
        request, uid = message.exchange.request, self._uids.get(_path_name(message.info), "")
        assert isinstance(request, ExchangeBegan)
        if (sightings := self.objects.get(uid)) is None:
            return
        if message.info.verb == "delete":
            sightings.deleted.append(message.iteration)
        else:
            sightings.unsure.append(request)

    # -------------------------------------------------------------- versions
    def _sightings(self, name: Ref, uid: str) -> ObjectSightings:
        self._uids[name] = uid
        return self.objects.setdefault(uid, ObjectSightings(uid=uid))

    def _version(self, sightings: ObjectSightings, revision: int, tree: JsonObject, iteration: int) -> Sighting:
        version = sightings.versions.get(revision)
        if version is None:
            version = sightings.versions[revision] = Sighting(revision=revision, tree=tree, first=iteration)
        return version


def _target(message: _Message) -> str:
    request = message.exchange.request
    return request.target if isinstance(request, ExchangeBegan) else ""


def _frames(splitter: FrameSplitter, part: bytes) -> Sequence[bytes]:
    try:
        return splitter.feed(part)
    except DecodeError:
        return ()  # longer than any event: the operator did not take it either


def _decoded(body: bytes) -> JsonObject:
    try:
        tree = msgspec.json.decode(body)
    except JSON_ERRORS:
        return {}
    return tree if isinstance(tree, dict) else {}


def _is_whole(tree: JsonObject) -> bool:
    """Whether a tree is an object that the server stored, and not its metadata alone."""
    metadata = tree.get("metadata")
    return (
        isinstance(metadata, dict)
        and bool(metadata.get("uid"))
        and bool(metadata.get("name"))
        and not str(tree.get("kind", _PARTIAL)).startswith(_PARTIAL)
    )


def _revision(tree: JsonObject, message: _Message) -> int:
    """Return the resource version of an object or a list; the place of the message if it is no number."""
    text = str((tree.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdecimal() else max(message.place, 0)


def _name_of(info: RequestInfo, tree: JsonObject) -> Ref:
    metadata = tree["metadata"]
    return Ref(info.group, info.resource, str(metadata.get("namespace") or ""), str(metadata.get("name", "")))


def _path_name(info: RequestInfo) -> Ref:
    namespace = "" if info.resource == "namespaces" else info.namespace
    return Ref(info.group, info.resource, namespace, info.name)
