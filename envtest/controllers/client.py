"""In-process client of the simulated controllers; requests pass admission and validation like any other."""

from __future__ import annotations

import msgspec

from envtest.controllers.writes import CreateWrite, DeleteWrite, PatchWrite, UpdateWrite, Write
from opsdk.apiserver.server import Server
from opsdk.errors import ServiceUnavailableError, api_error_from_status
from opsdk.http.asgi_types import Message
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import CutResponse, StreamResponse
from opsdk.structured_merge.value import JsonObject

_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


class InProcessClient:
    """A client of the server in this process, as one user.

    Args:
        token: the bearer token of the user.
        manager: the field manager, as the program's name in the User-Agent.
        version: the version of the program, such as ``v1.36.2``.
    """

    def __init__(self, server: Server, *, token: str, manager: str, version: str) -> None:
        self._server = server
        self._headers = {"authorization": f"Bearer {token}", "accept": _JSON, "user-agent": f"{manager}/{version}"}
        self.manager = manager

    def __repr__(self) -> str:
        return f"<InProcessClient of {self.manager}>"

    async def write(self, write: Write) -> JsonObject:
        """Send one write and return the object; `ApiError` if the server refuses it."""
        resource, meta = write.resource, write.obj["metadata"]
        namespace, name = meta.get("namespace", ""), meta.get("name", "")
        match write:
            case CreateWrite(obj=obj, subresource=subresource):
                path = resource.path(namespace, name if subresource else "", subresource)
                return await self.send("POST", path, obj)
            case UpdateWrite(obj=obj, subresource=subresource):
                return await self.send("PUT", resource.path(namespace, name, subresource), obj)
            case PatchWrite(patch=patch, subresource=subresource):
                media = _STRATEGIC if write.strategic else _MERGE
                return await self.send("PATCH", resource.path(namespace, name, subresource), patch, media=media)
            case DeleteWrite():
                options: JsonObject = {
                    "kind": "DeleteOptions",
                    "apiVersion": "v1",
                    "propagationPolicy": write.propagation,
                    "preconditions": {"uid": write.obj["metadata"]["uid"]},
                }
                return await self.send(
                    "DELETE",
                    resource.path(namespace, name),
                    options
                    if write.grace_period_seconds is None
                    else {**options, "gracePeriodSeconds": write.grace_period_seconds},
                )

    async def send(self, method: str, path: str, body: JsonObject | None = None, *, media: str = _JSON) -> JsonObject:
        """Send one request and return the object; `ApiError` if the server refuses it.

        The server gets `body` beside its bytes, and the answer is its own tree: neither may be changed.
        """
        raw = b"" if body is None else msgspec.json.encode(body)

        async def receive() -> Message:
            return {"type": "http.request", "body": raw, "more_body": False}

        headers = {**self._headers, "content-type": media, "content-length": str(len(raw))}
        response = await self._server.respond(HttpRequest(method, path, Query(), headers, receive, document=body))
        if isinstance(response, CutResponse):
            raise ServiceUnavailableError(f"{method} {path}: the connection was lost")
        if response.document is not None and response.status < 400:
            return response.document
        if isinstance(response, StreamResponse):
            raw = b"".join([piece async for piece in response.chunks])
        else:
            raw = response.body
        # Errors may be plain text.
        try:
            answer = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            if response.status < 400:
                raise
            answer = {
                "kind": "Status",
                "status": "Failure",
                "message": raw.decode(errors="replace").strip(),
                "code": response.status,
            }
        if response.status >= 400:
            raise api_error_from_status(answer, code=response.status)
        decoded: JsonObject = answer
        return decoded
