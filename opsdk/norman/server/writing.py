"""Responses in the format of a request, and errors.

Upstream: github.com/rancher/norman/api/writer, httperror/handler/handler.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from opsdk.aio.large_work import compute
from opsdk.aio.slicer import Slicer
from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, GenericCollection, RawResource, RequestResult
from opsdk.norman.server.csrf import is_browser
from opsdk.norman.server.output import collection_to_wire, resource_to_wire
from opsdk.norman.server.response_headers import protect_foreign
from opsdk.structured_merge.value import JsonObject, JsonValue

PAGE_HEADER = "x-norman-page"
"""Sent by the script of the page: errors have the HTTP status 200, and their own in the body."""


class PageRenderer(Protocol):
    """The web page of a server; `opsdk.norman.web.page.WebPage` is one."""

    async def before(self, context: ApiContext) -> HttpResponse | None:
        """Return the response to a request that needs no authentication, such as for a static file; None to continue.

        The context has the request and its URLs.
        """
        ...

    async def handle(self, context: ApiContext) -> HttpResponse | None:
        """Return the response to a request of the page itself, such as for a form; None to continue.

        It must check access. Raises `NormanError`.
        """
        ...

    async def render(self, context: ApiContext, status: int, result: RequestResult) -> HttpResponse:
        """Return the page for a result."""
        ...


# For caches of HTTP/1.0.
_EXPIRED = "Wed, 24 Feb 1982 18:42:00 GMT"


def response_format(request: HttpRequest) -> str:
    """Return ``json``, ``yaml`` or ``html``: ``_format`` counts first, then the browser, then Accept."""
    name = request.query.get("_format").strip().lower()
    if name in ("json", "yaml", "html"):
        return name
    if is_browser(request, check_accept=True):
        return "html"
    return "yaml" if "application/yaml" in request.header("accept") else "json"


async def write(
    context: ApiContext, status: int, result: RequestResult, *, page: PageRenderer | None, schemas_url: str
) -> HttpResponse:
    """Return the response for the result of a handler.

    Args:
        context: the request.
        status: of the response; 204 if there is no result.
        result: the result of a handler.
        page: renders the web page, or None to send JSON to browsers.
        schemas_url: the URL of the schemas, or empty.
    """
    if isinstance(result, HttpResponse):
        return protect_foreign(result)
    headers = [("expires", _EXPIRED)]
    if schemas_url:
        headers.append(("x-api-schemas", schemas_url))
    if result is None:
        return HttpResponse(204, headers, b"")
    if context.response_format == "html" and page is not None:
        response = await page.render(context, status, result)
        return HttpResponse(response.status, [*headers, *response.headers], response.body)
    as_yaml = context.response_format == "yaml"
    form = _YAML if as_yaml else _JSON
    wire = _to_wire(context, result)
    if isinstance(result, GenericCollection) and result.data:
        body = await _in_parts(wire, form)
    else:
        body = await compute(len(msgspec.json.encode(wire)) if as_yaml else 0, form.write, wire)
    return HttpResponse(status, [("content-type", form.media), *headers], body)


class _Form(NamedTuple):
    """How a body is written, and the text around the objects of a collection and between them."""

    media: str
    write: Callable[[JsonValue], bytes]
    write_item: Callable[[JsonValue], bytes]
    empty: bytes
    start: bytes
    separator: bytes
    end: bytes


def _as_yaml(wire: JsonValue) -> bytes:
    return write_yaml(wire).encode()


_JSON = _Form("application/json", msgspec.json.encode, msgspec.json.encode, b'"data":[]', b'"data":[', b",", b"]")
_YAML = _Form("application/yaml", _as_yaml, lambda item: _as_yaml([item]), b"\ndata: []\n", b"\ndata:\n", b"", b"")


async def _in_parts(wire: JsonObject, form: _Form) -> bytes:
    """Return the body of a collection, which has `data` as its last key. Large objects are written in the thread."""
    head, _, tail = form.write({**wire, "data": []}).rpartition(form.empty)
    parts, slicer = [], Slicer()
    for item in wire["data"]:
        size = len(raw := msgspec.json.encode(item))
        parts.append(raw if form is _JSON else await compute(size, form.write_item, item))
        if slicer.add(size):
            await asyncio.sleep(0)
    return b"".join((head, form.start, form.separator.join(parts), form.end, tail))


def _to_wire(context: ApiContext, result: RequestResult) -> JsonValue:
    """Return the JSON of a result."""
    if isinstance(result, RawResource):
        return resource_to_wire(context, result)
    if isinstance(result, GenericCollection):
        return collection_to_wire(context, result)
    return result


def error_to_wire(error: NormanError) -> JsonObject:
    """Return the body of an error.

    >>> error_to_wire(NormanError("", status=422, code="NotNullable", field_name="replicas"))["fieldName"]
    'replicas'
    """
    body: JsonObject = {"type": "/meta/schemas/error", "baseType": "error"}
    body |= {"status": error.status, "code": error.code, "message": error.message}
    return body | {"fieldName": error.field_name} if error.field_name else body
