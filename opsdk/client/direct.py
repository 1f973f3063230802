"""The executor that asks the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from opsdk.apimachinery.codec import decode, decode_list
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, ObjectList, PartialObjectMetadata, TypedObject, Unstructured, assign
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent, WatchEventType
from opsdk.client.operations import (
    Apply,
    Create,
    Delete,
    DeleteAllOf,
    Get,
    List,
    Operation,
    PatchObject,
    Update,
    Watch,
    gvk_of_operation,
)
from opsdk.client.requests import build_request, build_watch
from opsdk.errors import ApiError, ConnectionLostError, DecodeError, NotFoundError, api_error_from_status
from opsdk.rest.frames import FrameSplitter, parse_frame
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse, parse_warnings, raise_for_status
from opsdk.rest.transport import Transport

log = logging.getLogger(__name__)

WarningHandler = Callable[[RestRequest, str], None]


def log_warning(request: RestRequest, text: str) -> None:
    """Log a warning of the server: what becomes of them unless something else is asked for."""
    log.warning("%s: %s", request.described, text)


class DirectClient:
    """Carries every operation out with one request.

    Args:
        transport: the way to the server.
        on_warning: called for each warning in an answer, none suppressed.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        scheme: Scheme,
        mapper: RestMapper,
        on_warning: WarningHandler = log_warning,
    ) -> None:
        self.transport = transport
        self.scheme = scheme
        self.mapper = mapper
        self._on_warning = on_warning

    async def execute(self, operation: Operation) -> Any:
        """Send the request and decode the answer; see `opsdk.client.client.Client` for the verbs."""
        request = build_request(operation, await self.mapper.mapping_for(gvk_of_operation(operation)))
        match operation:
            case Get():
                return self._object(await self._send(request), operation.kind, subresource=operation.subresource)
            case List():
                return await self._list(request, operation.kind)
            case Create() | Update() | PatchObject() | Apply():
                target = operation.body if operation.body is not None else operation.obj
                return self._written(await self._send(request), target, subresource=operation.subresource)
            case Delete():
                return await self._delete(request, missing_ok=operation.options.missing_ok)
            case DeleteAllOf():
                await self._send(request)
                return None

    async def _send(self, request: RestRequest) -> RestResponse:
        response = await self.transport.send(request)
        for warning in parse_warnings(response):
            self._on_warning(request, warning.text)
        raise_for_status(response, request)
        return response

    async def _list(self, request: RestRequest, kind: Kind[AnyObject]) -> ObjectList[AnyObject]:
        objects: ObjectList[AnyObject] = decode_list((await self._send(request)).body, kind)
        for bad in objects.undecodable:
            log.error("%s: an object is set aside: %s", request.described, bad.error)
        return objects

    async def _delete(self, request: RestRequest, *, missing_ok: bool) -> None:
        try:
            await self._send(request)
        except NotFoundError:
            if not missing_ok:
                raise

    def _object(self, response: RestResponse, kind: Kind[AnyObject], *, subresource: str) -> AnyObject:
        representation = kind.representation
        if subresource and issubclass(representation, TypedObject) and representation.gvk.kind:
            kind = Kind(representation.gvk, representation)
        elif subresource:
            kind = _kind_of_response(response.body, representation)
        return decode(response.body, kind)

    def _written(self, response: RestResponse, target: AnyObject, *, subresource: str) -> AnyObject:
        """The object handed in, now as the server has it.

        A mere Status (evictions, bindings) leaves it alone, and so does a subresource of another kind (scale).
        """
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
        """Open the stream; leaving the block closes it."""
        request = build_watch(operation, await self.mapper.mapping_for(operation.kind.gvk))
        async with self.transport.stream(request) as stream:
            yield _events(stream, operation.kind)

    def __repr__(self) -> str:
        return f"<DirectClient over {self.transport!r}>"


async def _events(chunks: AsyncIterator[bytes], kind: Kind[AnyObject]) -> AsyncIterator[WatchEvent[Any]]:
    splitter = FrameSplitter()
    async for chunk in chunks:
        for data in splitter.feed(chunk):
            frame = parse_frame(data)
            body = bytes(frame.object)
            if frame.type == "ERROR":
                raise _error_of(body)
            # A bookmark is a revision and nothing else: the type's required fields are not there.
            form = Kind(kind.gvk, PartialObjectMetadata) if frame.type == "BOOKMARK" else kind
            yield WatchEvent(_event_type(frame.type), decode(body, form))
    if splitter.rest():
        raise ConnectionLostError(f"the watch of {kind.gvk} was cut inside an event")


def _error_of(body: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(body, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = {"message": f"the watch failed, and its error is unreadable: {body[:80]!r}"}
    return api_error_from_status(status, code=500)


def _event_type(name: str) -> WatchEventType:
    try:
        return WatchEventType(name)
    except ValueError as error:
        raise DecodeError(f"unknown watch event type {name!r}") from error


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _kind_of_response(body: bytes, form: type[AnyObject]) -> Kind[AnyObject]:
    """What the server says the answer is, in the form wanted."""
    try:
        meta = msgspec.json.decode(body, type=_TypeMeta)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"the answer is no object: {error}; it starts with {body[:80]!r}") from error
    return Kind(GroupVersionKind.parse(meta.api_version, meta.kind), form)
