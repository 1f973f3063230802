"""The executor that sends requests to the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from opsdk.apimachinery.codec import decode, decode_list
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind, kind_for
from opsdk.apimachinery.object import (
    AnyObject,
    ObjectList,
    PartialObjectMetadata,
    TypedObject,
    Unstructured,
    assign,
    key_of,
)
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent, WatchEventType
from opsdk.client.operations import (
    Apply,
    Delete,
    DeleteAllOf,
    Get,
    List,
    ObjectWrite,
    Operation,
    Watch,
)
from opsdk.client.ports import WriteObserver
from opsdk.client.requests import build_request, build_watch
from opsdk.client.trace_annotation import REFUSALS, TraceAnnotator
from opsdk.errors import DecodeError, NoMatchError, NotFoundError, OpsdkError, RequestInfo, UsageError
from opsdk.rest.frames import WatchDecoder, error_from_event, parse_frame
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse, parse_warnings, raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JSON_ERRORS
from opsdk.telemetry.records import TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

WarningHandler = Callable[[RestRequest, str], None]
# Different warnings, each of a resource.
_MAX_WARNINGS = 1000


class WarningLogger:
    """Logs a warning of the server: the default handler. A warning that a resource repeats is of the level DEBUG.

    Upstream: sigs.k8s.io/controller-runtime/pkg/log/warning_handler.go, KubeAPIWarningLogger with Deduplicate
    """

    def __init__(self) -> None:
        self._logged: set[tuple[str, str, str]] = set()

    def __call__(self, request: RestRequest, text: str) -> None:
        """Log a warning."""
        warning = (request.group, request.resource, text)
        level = logging.DEBUG if warning in self._logged else logging.WARNING
        if len(self._logged) == _MAX_WARNINGS:
            self._logged.clear()
        self._logged.add(warning)
        log.log(level, "%s: %s", request.description, text)


class DirectClient:
    """Carries out every operation with one request.

    Args:
        transport: sends the requests.
        scheme: the registry of kinds.
        mapper: maps kinds to resources.
        on_warning: called for each warning of a response; None for a `WarningLogger`.
        observer: receives every successful write.
        hook: if it follows writes, they carry its trace context, see `opsdk.client.trace_annotation`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        scheme: Scheme,
        mapper: RestMapper,
        on_warning: WarningHandler | None = None,
        observer: WriteObserver | None = None,
        hook: TelemetryHook | None = None,
    ) -> None:
        self._observer = observer
        self._hook = hook if hook is not None and hook.follows_writes else None
        self._annotator = TraceAnnotator() if self._hook is not None else None
        self.transport = transport
        self.scheme = scheme
        self.mapper = mapper
        self._on_warning = on_warning or WarningLogger()

    async def execute(self, operation: Operation) -> Any:
        """Send the request and decode the response; see `opsdk.client.client.Client`."""
        mapping = self.mapper.known_mapping(operation.gvk) or await self.mapper.mapping_for(operation.gvk)
        request = build_request(operation, mapping)
        try:
            match operation:
                case ObjectWrite():
                    if self._annotator is None:
                        response = await self._write(mapping, operation, request)
                    else:
                        response = await self._traced_write(self._annotator, mapping, operation, request)
                    if isinstance(operation, Apply) and operation.answered is not None:
                        operation.answered(response.status)
                    target = operation.body if operation.body is not None else operation.obj
                    return self._update_target(response, target, subresource=operation.subresource)
                case Get():
                    response = await self._read(mapping, operation, request)
                    return self._decode_object(response, operation.kind, subresource=operation.subresource)
                case List():
                    return await self._list(operation, request)
                case Delete() | DeleteAllOf():
                    await self._write(mapping, operation, request)
                    return None
        except NotFoundError:
            if isinstance(operation, Delete) and operation.options.missing_ok:
                return None
            if isinstance(operation, ObjectWrite | Get) and operation.subresource:
                await self._check_subresource(operation, operation.subresource)
            raise

    async def _check_subresource(self, operation: ObjectWrite | Get, subresource: str) -> None:
        """Raise `NoMatchError` if the definition of the kind lacks the subresource.

        The server responds as for a missing object.
        """
        gvk = operation.gvk
        try:
            if await self.mapper.has_subresource(gvk, subresource):
                return
        except OpsdkError:
            return  # it cannot be found out: the first error stays
        raise NoMatchError(
            f"the definition of {gvk} has no subresource {subresource}, so it can neither be written nor read: "
            f"add `subresources: {{{subresource}: {{}}}}` to the version in the CustomResourceDefinition, as "
            "opsdk generate crd does"
        )

    async def _list(self, operation: List, request: RestRequest) -> ObjectList[AnyObject]:
        objects = decode_list((await self._send(request)).body, operation.kind)
        for bad in objects.undecodable:
            log.error("%s: an object does not decode and is skipped: %s", request.description, bad.error)
        if uid := operation.options.owner_uid:  # the server has no such selector
            objects.items = [o for o in objects if any(r.uid == uid for r in o.metadata.owner_references)]
        if excluded := operation.options.exclude:
            objects.items = [o for o in objects if key_of(o) not in excluded]
        return objects

    async def _write(
        self, mapping: RestMapping, operation: ObjectWrite | Delete | DeleteAllOf, request: RestRequest
    ) -> RestResponse:
        """Send a write. Its result, or that it is not known, is recorded for cached reads before this returns."""
        observer = self._observer
        if observer is None:
            return await self._send(request)
        body = request.body
        assert isinstance(body, bytes), "operations have whole bodies"
        sent = observer.sending(operation, mapping)
        try:
            response = self._checked(request, await self.transport.send(request))
        except BaseException as error:
            observer.failed(operation, mapping, request=body, error=error)
            raise
        observer.written(operation, mapping, request=body, response=response.body, sent=sent)
        return response

    async def _traced_write(
        self, annotator: TraceAnnotator, mapping: RestMapping, operation: ObjectWrite, request: RestRequest
    ) -> RestResponse:
        """Send a write with its trace context. If the server refuses it, send it without.

        A refused write had no effect. Telemetry must not make a write fail, so a second request is the lesser evil.
        """
        write = annotator.started(operation)
        if write is None or self._hook is None:
            return await self._write(mapping, operation, request)
        with self._hook.write(write.record) as headers:
            annotated = annotator.annotate(write, request, headers.get("traceparent", ""))
            if annotated is None:
                return await self._write(mapping, operation, request)
            try:
                return await self._write(mapping, operation, annotated)
            except REFUSALS as error:
                refusal = error
            response = await self._write(mapping, operation, request)
        annotator.refused(operation.gvk, refusal)
        return response

    async def _read(self, mapping: RestMapping, operation: Get, request: RestRequest) -> RestResponse:
        """Send a request for one object. If it does not exist, cached reads must not return it any more."""
        try:
            return await self._send(request)
        except NotFoundError:
            if self._observer is not None:
                self._observer.missing(mapping, operation.key)
            raise

    async def _send(self, request: RestRequest) -> RestResponse:
        return self._checked(request, await self.transport.send(request))

    def _checked(self, request: RestRequest, response: RestResponse) -> RestResponse:
        """Report the warnings of a response, and raise its error."""
        if "warning" in response.headers:
            for warning in parse_warnings(response):
                self._on_warning(request, warning.text)
        raise_for_status(response, request)
        return response

    def _decode_object(self, response: RestResponse, kind: Kind[AnyObject], *, subresource: str) -> AnyObject:
        representation = kind.representation
        if subresource and issubclass(representation, TypedObject) and representation.gvk.kind:
            kind = Kind(representation.gvk, representation)
        elif subresource:
            kind = _kind_of_response(response.body, representation)
        return decode(response.body, kind)

    def _update_target(self, response: RestResponse, target: AnyObject, *, subresource: str) -> AnyObject:
        """Update `target` to the server's state and return it.

        A Status response (evictions, bindings) and a subresource with another kind (scale) leave it unchanged.
        """
        if isinstance(target, TypedObject) and target.gvk.kind:
            # Nearly every response is the object: then its kind need not be read first.
            try:
                decoded = decode(response.body, kind_for(target.gvk, type(target)))
            except DecodeError:
                return self._update_other(response, target, subresource=subresource)
            assign(target, decoded)
            return target
        return self._update_other(response, target, subresource=subresource)

    def _update_other(self, response: RestResponse, target: AnyObject, *, subresource: str) -> AnyObject:
        """Do as `_update_target` for a response that names its kind."""
        kind = _kind_of_response(response.body, type(target))
        if kind.gvk.kind == "Status" and kind.gvk.group == "" and target.kind != "Status":
            return target
        if subresource and not isinstance(target, PartialObjectMetadata) and kind.gvk.kind != target.kind:
            return target
        if isinstance(target, TypedObject) and target.gvk.kind:
            kind = Kind(target.gvk, type(target))
        elif not isinstance(target, Unstructured):
            kind = Kind(GroupVersionKind.parse(target.api_version, target.kind), type(target))
        assign(target, decode(response.body, kind))
        return target

    @asynccontextmanager
    async def watch(self, operation: Watch) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Open the stream. Leaving the block closes it."""
        request = build_watch(operation, await self.mapper.mapping_for(operation.kind.gvk))
        async with self.transport.stream(request) as stream:
            yield _decode_events(stream, operation.kind, request.info)

    def __repr__(self) -> str:
        return f"<DirectClient over {self.transport!r}>"


async def _decode_events(
    chunks: AsyncIterator[bytes], kind: Kind[Any], request: RequestInfo
) -> AsyncIterator[WatchEvent[Any]]:
    """Decode the frames of a watch. Raises the error that the server sent as an event."""
    decoder = WatchDecoder(kind.gvk, parse_frame)
    async for chunk in chunks:
        for frame in decoder.feed(chunk):
            body = bytes(frame.object)
            if frame.type == "ERROR":
                raise error_from_event(body, request)
            try:
                event_type = WatchEventType(frame.type)
            except ValueError as error:
                raise DecodeError(f"unknown watch event type {frame.type!r}") from error
            # A bookmark has only a resource version: the required fields of the class are missing.
            form = Kind(kind.gvk, PartialObjectMetadata) if frame.type == "BOOKMARK" else kind
            yield WatchEvent(event_type, decode(body, form))
    decoder.finish()


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _kind_of_response(body: bytes, form: type[AnyObject]) -> Kind[AnyObject]:
    """Return the kind that the response names, with the given representation."""
    try:
        meta = msgspec.json.decode(body, type=_TypeMeta)
        return Kind(GroupVersionKind.parse(meta.api_version, meta.kind), form)
    except (*JSON_ERRORS, UsageError) as error:
        raise DecodeError(f"the response is not an object: {error}; it starts with {body[:80]!r}") from error
