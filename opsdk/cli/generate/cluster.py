"""Reads CustomResourceDefinitions, and the OpenAPI v3 document of each group and version, from a live server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from opsdk.errors import DecodeError, UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject

_ROOT = "/openapi/v3"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def fetch_schemas(groups: Sequence[str] = (), config: RestConfig | None = None) -> Mapping[str, Any]:
    """Return ``components.schemas`` of the documents of `groups` (empty: all) of the server in the kubeconfig."""
    return asyncio.run(read_schemas(config or load_config(), groups))


def fetch_definitions(groups: Sequence[str] = (), config: RestConfig | None = None) -> Sequence[JsonObject]:
    """Return the CustomResourceDefinitions of `groups` (empty: all) of the server in the kubeconfig."""
    return asyncio.run(read_definitions(config or load_config(), groups))


async def read_definitions(config: RestConfig, groups: Sequence[str] = ()) -> Sequence[JsonObject]:
    """Async variant for a given server.

    Raises `ApiError` or `TransportError` if the server does not return them.
    """
    async with Transport(config) as transport:
        answer = await _document(transport, RestRequest("GET", _DEFINITIONS, verb="list"))
    return [crd for crd in answer.get("items") or () if not groups or crd["spec"]["group"] in groups]


async def read_schemas(config: RestConfig, groups: Sequence[str] = ()) -> Mapping[str, Any]:
    """Async variant for a given server.

    Raises `ApiError` or `TransportError` if the server does not answer, `UsageError` for a group it does not have.
    """
    async with Transport(config) as transport:
        root = await _document(transport, RestRequest("GET", _ROOT, verb="get"))
        chosen = _choose(root.get("paths") or {}, groups)
        schemas: JsonObject = {}
        # Sequential: parallel requests would slow down other clients of the server.
        for url in chosen:
            path, _, query = url.partition("?")
            document = await _document(transport, RestRequest("GET", path, query=parse_qsl(query), verb="get"))
            schemas |= (document.get("components") or {}).get("schemas") or {}
    return schemas


def _choose(paths: Mapping[str, Any], groups: Sequence[str]) -> list[str]:
    """Return the document URLs of `groups`. Keys of `paths` are ``apis/apps/v1``, or ``api/v1`` for the core group."""
    chosen: dict[str, list[str]] = {}
    for path, place in paths.items():
        root, *rest = path.split("/")
        if (root == "apis" and len(rest) == 2) or (root == "api" and len(rest) == 1):
            group = rest[0] if root == "apis" else ""
            chosen.setdefault(group, []).append(str(place.get("serverRelativeURL") or f"{_ROOT}/{path}"))
    names = ["" if g == "core" else g for g in groups] or list(chosen)
    if missing := [g for g in names if g not in chosen]:
        there = ", ".join(sorted(g or "core" for g in chosen))
        raise UsageError(f"the server has no group {missing[0] or 'core'!r}: choose one of {there}")
    return [url for group in names for url in sorted(chosen[group])]


async def _document(transport: Transport, request: RestRequest) -> JsonObject:
    response = await transport.send(request)
    raise_for_status(response, request)
    try:
        return msgspec.json.decode(response.body, type=JsonObject)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"{request.description} is not an OpenAPI document: {error}") from error
