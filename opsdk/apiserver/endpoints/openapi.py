"""OpenAPI documents, made from what is installed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import Elsewhere, ServedGroup, ServedVersion
from opsdk.apiserver.endpoints.etag import cached
from opsdk.apiserver.endpoints.openapi_merge import merged
from opsdk.apiserver.endpoints.openapi_proto import MEDIA, encode_document, is_asked
from opsdk.apiserver.endpoints.verb_patch import patch_types
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import NotAcceptableError
from opsdk.web.response import Response, encode_json

_REF = "#/components/schemas/"
_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_QUERY = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    "list": ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
    "deletecollection": ("continue", "dryRun", "fieldSelector", "labelSelector", "limit"),
}


class SchemaSource(Protocol):
    """Schemas by name, and the name of a kind's schema."""

    def schema(self, name: str) -> Tree | None:
        """One schema; references stand under ``#/components/schemas/``."""
        ...

    def name_of(self, served: Installed) -> str | None:
        """The schema of a resource's kind."""
        ...


class OpenApi:
    """The documents at ``/openapi/v2`` and ``/openapi/v3``."""

    def __init__(
        self, groups: Callable[[], Sequence[ServedGroup]], sources: Sequence[SchemaSource], *, title: str, version: str
    ) -> None:
        self._groups = groups
        self._sources = sources
        self._info = {"title": title, "version": version}
        self._made: dict[str, tuple[object, bytes, str]] = {}

    def _documents(self) -> Iterator[tuple[str, str, ServedVersion]]:
        return (found for found in self._all() if found[2].elsewhere is None)

    def _all(self) -> Iterator[tuple[str, str, ServedVersion]]:
        for group in self._groups():
            for served in group.versions:
                prefix = f"apis/{group.group}" if group.group else "api"
                yield f"{prefix}/{served.version}", group.group, served

    def _foreign(self) -> Iterator[tuple[str, Elsewhere]]:
        """Documents that other servers have."""
        for name, _, served in self._all():
            if served.elsewhere is not None:
                yield name, served.elsewhere

    def paths(self) -> list[str]:
        """The paths of the v3 documents."""
        return [f"/openapi/v3/{path}" for path, _, _ in self._all()]

    def answer(self, call: Call, rest: Sequence[str]) -> Response | None:
        """Answer under ``/openapi``."""
        if rest[:1] == ["v2"] and len(rest) == 1:
            return self._v2(call)
        if rest[:1] != ["v3"]:
            return None
        if len(rest) == 1:
            index = encode_json({"paths": dict(self._index())})
            # This one index is JSON under the name of text: so the real server sends it.
            return Response(200, [("content-type", "text/plain; charset=utf-8")], index)
        path = "/".join(rest[1:])
        if any(name == path and known.digest for name, known in self._foreign()):
            return None
        for name, group, served in self._documents():
            if name == path:
                raw, _ = self._v3(name, group, served)
                return cached(call, raw, "application/json")
        if path in self._plain_paths():
            return cached(call, encode_json(self._plain(path)), "application/json")
        # Unlike elsewhere, nothing at all is said about a document that is not there.
        return Response(404, [])

    def _index(self) -> Iterator[tuple[str, Tree]]:
        digests = {name: self._v3(name, group, served)[1] for name, group, served in self._documents()}
        digests |= {path: _digest(encode_json(self._plain(path))) for path in self._plain_paths()}
        digests |= {name: known.digest for name, known in self._foreign() if known.digest}
        for name in sorted(digests):
            yield name, {"serverRelativeURL": f"/openapi/v3/{name}?hash={digests[name]}"}

    def _plain_paths(self) -> list[str]:
        """Documents of paths that are no resources."""
        groups = [f"apis/{group.group}" for group in self._groups() if group.group]
        return ["api", "apis", "version", *groups]

    def _plain(self, path: str) -> Tree:
        answers = {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}}
        operation = {"operationId": f"get{path.title()}", "responses": answers}
        item = {f"/{path}/": {"get": operation}}
        return {"openapi": "3.0.0", "info": self._info, "paths": item, "components": {"schemas": {}}}

    def _v3(self, name: str, group: str, served: ServedVersion) -> tuple[bytes, str]:
        stamp = tuple((id(r.model), r.info.path) for r in served.resources)
        found = self._made.get(name)
        if found is not None and found[0] == stamp:
            return found[1], found[2]
        raw = encode_json(self._document(group, served))
        digest = _digest(raw)
        self._made[name] = (stamp, raw, digest)
        return raw, digest

    def _document(self, group: str, served: ServedVersion) -> Tree:
        paths: Tree = {}
        for installed in served.resources:
            for path, verbs in _routes(group, installed):
                paths[path] = {**paths.get(path, {}), **self._operations(installed, verbs)}
        schemas: Tree = {}
        for installed in served.resources:
            name = self._name(installed)
            if name:
                self._collect(name, schemas)
        return {"openapi": "3.0.0", "info": self._info, "paths": paths, "components": {"schemas": schemas}}

    def _name(self, installed: Installed) -> str | None:
        return next((n for s in self._sources if (n := s.name_of(installed))), None)

    def _collect(self, name: str, into: Tree) -> None:
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in into:
                continue
            found = next((x for s in self._sources if (x := s.schema(name)) is not None), None)
            if found is not None:
                into[name] = found
                waiting.extend(references(found))

    def _operations(self, installed: Installed, verbs: Sequence[str]) -> Tree:
        info = installed.info
        name = self._name(installed)
        kind = {
            "group": info.kind_group if info.kind_group is not None else info.group,
            "version": info.kind_version or info.version,
            "kind": info.kind,
        }
        body = {"$ref": f"{_REF}{name}"} if name else {"type": "object"}
        operations: Tree = {}
        for verb in verbs:
            content = {"application/json": {"schema": body}}
            operation: Tree = {
                "operationId": f"{verb}{info.kind}{info.subresource.title()}",
                "parameters": [_parameter(p) for p in _QUERY.get(verb, ())],
                "responses": {"200": {"description": "OK", "content": content}},
                "x-kubernetes-action": verb,
                "x-kubernetes-group-version-kind": kind,
            }
            if verb in ("create", "update"):
                operation["requestBody"] = {"content": {"*/*": {"schema": body}}}
            if verb == "patch":
                operation["requestBody"] = {
                    "content": {t: {"schema": {"type": "object"}} for t in sorted(patch_types(installed))}
                }
            operations[_METHODS[verb]] = operation
        return operations

    # -------------------------------------------------------------- version 2
    def _v2(self, call: Call) -> Response:
        accept = call.http.header("accept", "*/*")
        as_proto = is_asked(accept)
        if not as_proto and "json" not in accept and "*/*" not in accept:
            raise NotAcceptableError(f"only application/json and {MEDIA} are served here")
        paths: Tree = {}
        definitions: Tree = {}
        for _, group, served in self._documents():
            document = self._document(group, served)
            paths |= {path: _downgraded(item) for path, item in document["paths"].items()}
            definitions |= {n: _downgraded(s) for n, s in document["components"]["schemas"].items()}
        for _, known in self._foreign():
            if known.swagger is not None:
                paths, definitions = merged(paths, definitions, known.swagger)
        made = {"swagger": "2.0", "info": self._info, "paths": paths, "definitions": definitions}
        if as_proto:
            return cached(call, encode_document(made), MEDIA)
        return cached(call, encode_json(made), "application/json")


def _digest(raw: bytes) -> str:
    return hashlib.sha512(raw).hexdigest().upper()


def _parameter(name: str) -> Tree:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def _routes(group: str, installed: Installed) -> Iterator[tuple[str, list[str]]]:
    info = installed.info
    root = f"/apis/{group}/{info.version}" if group else f"/api/{info.version}"
    verbs = [v for v in installed.verbs if v in _METHODS]
    scoped = f"{root}/namespaces/{{namespace}}/{info.resource}" if info.namespaced else f"{root}/{info.resource}"
    if info.subresource:
        yield f"{scoped}/{{name}}/{info.subresource}", verbs
        return
    many = [v for v in verbs if v in ("list", "create", "deletecollection")]
    one = [v for v in verbs if v not in many]
    if many:
        yield scoped, many
    if one:
        yield f"{scoped}/{{name}}", one
    if info.namespaced and "list" in verbs:
        yield f"{root}/{info.resource}", ["list"]


def references(schema: Any) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith(_REF):
            yield target.removeprefix(_REF)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _downgraded(value: Any) -> Any:
    """From OpenAPI 3 to 2, as far as kubectl and generators look."""
    if isinstance(value, list):
        return [_downgraded(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "allOf" in value and len(value["allOf"]) == 1 and "$ref" in value["allOf"][0]:
        return _downgraded(value["allOf"][0])
    made = {k: _downgraded(v) for k, v in value.items() if k not in ("oneOf", "anyOf", "nullable", "requestBody")}
    if "in" in made and "schema" in made:
        # Only bodies have schemas there.
        made |= made.pop("schema")
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace(_REF, "#/definitions/")
    if "responses" in made:
        for answer in made["responses"].values():
            content = answer.pop("content", {})
            if content:
                answer["schema"] = content["application/json"]["schema"]
    return made
