"""OpenAPI documents of the installed resources.

Upstream: k8s.io/kube-openapi/pkg/handler3/handler.go (v1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

from opsdk.aio.large_work import LARGE_BYTES, compute
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import RemoteDocuments, ServedGroup, ServedVersion
from opsdk.apiserver.endpoints.etag import cached
from opsdk.apiserver.endpoints.openapi.merge import merge_specs
from opsdk.apiserver.endpoints.openapi.paths import (
    DELETE_OPTIONS,
    META,
    PATCH,
    REF,
    STATUS,
    OperationNames,
    paths_of,
    referring,
)
from opsdk.apiserver.endpoints.openapi.protobuf import MEDIA, encode_document, is_asked
from opsdk.apiserver.endpoints.openapi.v2 import definition, path_item
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import NotAcceptableError
from opsdk.http.server.response import HttpResponse, encode_json
from opsdk.structured_merge.value import JsonObject, JsonValue

P = ParamSpec("P")
T = TypeVar("T")

_V2: Final = "v2"
_LIST_META = f"{META}.ListMeta"
_SELECTABLE = "x-kubernetes-selectable-fields"


class SchemaSource(Protocol):
    """Provides schemas by name, and the schema name of a kind."""

    def schema(self, name: str) -> JsonObject | None:
        """Return a schema, or None; references begin with ``#/components/schemas/``."""
        ...

    def name_of(self, served: InstalledResource) -> str | None:
        """Return the schema name of a resource's kind, or None."""
        ...

    def digest_of(self, served: InstalledResource) -> str | None:
        """Return a text that changes with the schema of a resource's kind, without the schema; None as `name_of`."""
        ...


class OpenApi:
    """The documents at ``/openapi/v2`` and ``/openapi/v3``.

    The thread for large work builds a document at its first request, and again when its resources have changed. The
    index of version 3 needs none of them.
    """

    def __init__(
        self, groups: Callable[[], Sequence[ServedGroup]], sources: Sequence[SchemaSource], *, title: str, version: str
    ) -> None:
        self._groups = groups
        self._sources = sources
        self._info = {"title": title, "version": version}
        self._encoded: dict[str, tuple[str, bytes]] = {}
        """The encoded documents that are served, with their digests, by name."""

    def _documents(self) -> Iterator[tuple[str, str, ServedVersion]]:
        return (entry for entry in self._all() if entry[2].remote_documents is None)

    def _all(self) -> Iterator[tuple[str, str, ServedVersion]]:
        for group in self._groups():
            for served in group.versions:
                prefix = f"apis/{group.group}" if group.group else "api"
                yield f"{prefix}/{served.version}", group.group, served

    def _foreign(self) -> Iterator[tuple[str, RemoteDocuments]]:
        """Yield the documents of aggregated servers."""
        for name, _, served in self._all():
            if served.remote_documents is not None:
                yield name, served.remote_documents

    def paths(self) -> list[str]:
        """Return the paths of the v3 documents."""
        return [f"/openapi/v3/{path}" for path, _, _ in self._all()]

    async def answer(self, call: Call, rest: Sequence[str]) -> HttpResponse | None:
        """Respond to a path below ``/openapi``; None for an unknown one."""
        if rest[:1] == ["v2"] and len(rest) == 1:
            return await self._v2(call)
        if rest[:1] != ["v3"]:
            return None
        if len(rest) == 1:
            index = await _build(self._index, list(self._documents()), self._plain_paths(), list(self._foreign()))
            # Upstream sends this index as JSON with the media type text/plain.
            return HttpResponse(200, [("content-type", "text/plain; charset=utf-8")], index)
        path = "/".join(rest[1:])
        if any(name == path and document.digest for name, document in self._foreign()):
            return None
        for name, group, served in self._documents():
            if name == path:
                self._forget({document for document, _, _ in self._documents()})
                raw = await _build(self._v3, name, group, served)
                return cached(call, raw, "application/json")
        if path in self._plain_paths():
            return cached(call, encode_json(self._plain(path)), "application/json")
        # The 404 of a missing document has an empty body, unlike other 404s.
        return HttpResponse(404, [])

    def _index(
        self,
        documents: Sequence[tuple[str, str, ServedVersion]],
        plain: Sequence[str],
        foreign: Sequence[tuple[str, RemoteDocuments]],
    ) -> bytes:
        digests = {name: self._digest(served) for name, _, served in documents}
        digests |= {path: hashlib.sha512(encode_json(self._plain(path))).hexdigest().upper() for path in plain}
        digests |= {name: document.digest for name, document in foreign if document.digest}
        paths = {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={digests[name]}"} for name in sorted(digests)}
        return encode_json({"paths": paths})

    def _digest(self, served: ServedVersion) -> str:
        """Return a digest of all that decides about a document. Upstream's is that of the document."""
        inputs = [
            (
                repr(installed.info),
                sorted(installed.verbs),
                next((text for source in self._sources if (text := source.digest_of(installed))), None),
            )
            for installed in served.resources
        ]
        return hashlib.sha512(encode_json([self._info, inputs])).hexdigest().upper()

    def _forget(self, names: Collection[str]) -> None:
        """Drop the documents that are not served any more."""
        for name in self._encoded.keys() - names - {_V2, MEDIA}:
            del self._encoded[name]

    def _plain_paths(self) -> list[str]:
        """Return the names of the documents for non-resource paths."""
        groups = [f"apis/{group.group}" for group in self._groups() if group.group]
        return ["api", "apis", "version", *groups]

    def _plain(self, path: str) -> JsonObject:
        answers = {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}}
        operation = {"operationId": f"get{path.title()}", "responses": answers}
        item = {f"/{path}/": {"get": operation}}
        return {"openapi": "3.0.0", "info": self._info, "paths": item, "components": {"schemas": {}}}

    def _v3(self, name: str, group: str, served: ServedVersion) -> bytes:
        return self._once(name, self._digest(served), lambda: encode_json(self._document(group, served)))

    def _once(self, name: str, digest: str, encode: Callable[[], bytes]) -> bytes:
        """Return a document, which is encoded if its digest has changed."""
        entry = self._encoded.get(name)
        if entry is None or entry[0] != digest:
            entry = self._encoded[name] = (digest, encode())
        return entry[1]

    def _document(self, group: str, served: ServedVersion) -> JsonObject:
        """Return the document of a group's version: its paths, and the schemas that they mention."""
        paths: JsonObject = {}
        kinds = {r.info.resource: r.info.kind for r in served.resources if not r.info.subresource}
        for installed in served.resources:
            kind = kinds.get(installed.info.resource, installed.info.kind)
            names = OperationNames(body=self._name(installed), list_body=self._list_name(installed), kind=kind)
            for path, item in paths_of(group, installed, names):
                paths[path] = {**paths.get(path, {}), **item}
        schemas: JsonObject = {}
        for installed in served.resources:
            mentioned = [self._name(installed)]
            if "delete" in installed.verbs:
                mentioned += [STATUS, DELETE_OPTIONS]
            if "patch" in installed.verbs:
                mentioned.append(PATCH)
            for name in filter(None, mentioned):
                self._collect(name, schemas)
            if "list" in installed.verbs and not installed.info.subresource:
                self._add_list(installed, schemas)
        return {"openapi": "3.0.0", "info": self._info, "paths": paths, "components": {"schemas": schemas}}

    def _name(self, installed: InstalledResource) -> str | None:
        return next((n for s in self._sources if (n := s.name_of(installed))), None)

    def _add_list(self, installed: InstalledResource, into: JsonObject) -> None:
        """Add the schema of a resource's list, with what it refers to."""
        item, name = self._name(installed), self._list_name(installed)
        if item is None or name is None:
            return
        self._collect(name, into)
        if name not in into:
            item_schema = into.get(item, {})
            info = installed.info
            kind = info.list_kind or f"{info.kind}List"
            schema: JsonObject = {
                "description": f"{kind} is a list of {info.kind}",
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "items": {"type": "array", "items": referring(item)},
                    "kind": {"type": "string"},
                    "metadata": {"allOf": [referring(_LIST_META)]},
                },
                "x-kubernetes-group-version-kind": [{"group": info.group, "kind": kind, "version": info.version}],
            }
            into[name] = {**schema, _SELECTABLE: item_schema[_SELECTABLE]} if _SELECTABLE in item_schema else schema
            self._collect(_LIST_META, into)

    def _list_name(self, installed: InstalledResource) -> str | None:
        item = self._name(installed)
        if item is None:
            return None
        return f"{item.rpartition('.')[0]}.{installed.info.list_kind or f'{installed.info.kind}List'}"

    def _collect(self, name: str, into: JsonObject) -> None:
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in into:
                continue
            schema = next((x for s in self._sources if (x := s.schema(name)) is not None), None)
            if schema is not None:
                into[name] = schema
                waiting.extend(references(schema))

    # -------------------------------------------------------------- version 2
    async def _v2(self, call: Call) -> HttpResponse:
        """Return ``/openapi/v2`` as JSON or protobuf, with the documents of aggregated servers."""
        accept = call.http.header("accept", "*/*")
        as_proto = is_asked(accept)
        if not as_proto and "json" not in accept and "*/*" not in accept:
            raise NotAcceptableError(f"only application/json and {MEDIA} are served here")
        documents, foreign = list(self._documents()), [document for _, document in self._foreign()]

        def build() -> HttpResponse:
            digest = " ".join([*(self._digest(served) for _, _, served in documents), *map(_identity, foreign)])
            merged = partial(self._merged, documents, foreign)
            if as_proto:
                return cached(call, self._once(MEDIA, digest, lambda: encode_document(merged())), MEDIA)
            return cached(call, self._once(_V2, digest, lambda: encode_json(merged())), "application/json")

        return await _build(build)

    def _merged(
        self, documents: Sequence[tuple[str, str, ServedVersion]], foreign: Sequence[RemoteDocuments]
    ) -> JsonObject:
        paths: JsonObject = {}
        definitions: JsonObject = {}
        for _, group, served in documents:
            document = self._document(group, served)
            paths |= {path: path_item(item) for path, item in document["paths"].items()}
            definitions |= {name: definition(s) for name, s in document["components"]["schemas"].items()}
        for foreign_document in foreign:
            if foreign_document.swagger is not None:
                paths, definitions = merge_specs(paths, definitions, foreign_document.swagger)
        return {"swagger": "2.0", "info": self._info, "paths": paths, "definitions": definitions}


def _identity(foreign: RemoteDocuments) -> str:
    return f"{foreign.digest} {hashlib.sha512(encode_json(foreign.swagger)).hexdigest()}"


async def _build(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call work that takes as long as there are definitions."""
    return await compute(LARGE_BYTES + 1, work, *args, **kwargs)


def references(schema: JsonValue) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to."""
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith(REF):
            yield target.removeprefix(REF)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)
