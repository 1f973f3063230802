"""Subresources behind which something runs elsewhere: logs and proxies.

Nothing runs here, so a test says what pods answer, by a `Responder`. Without one they are as far away as on a server
without nodes: the answer says that they cannot be reached.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NoReturn

from envtest.kinds.proxied import AGENT_PORT, Target, node_place, pod_place, service_place, target_of
from envtest.kinds.responders import Responders
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import ListQuery
from opsdk.apiserver.registry.store import GenericStore
from opsdk.errors import Cause, ServiceUnavailableError
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ logs
class LogStore:
    """``pods/log``."""

    connect_methods = ("GET",)
    connect_verbs = ("get",)

    def __init__(self, pods: GenericStore, nodes: GenericStore, responders: Responders) -> None:
        self._pods = pods
        self._nodes = nodes
        self._responders = responders

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """See `Connecter`."""
        options = log_options(request.query, name)
        pod = await self._pods.get(context, name)
        container = choose_container(pod, request.query.get("container"))
        if not pod["spec"].get("nodeName"):
            return HttpResponse(204, [])
        if self._responders.logs is None:
            await far_away(self._nodes, context, pod, f"containerLogs/{context.namespace}/{name}/{container}")
        written: Any = self._responders.logs(pod, container)
        headers = [("content-type", "text/plain")]
        if isinstance(written, AsyncGenerator):
            return StreamResponse(200, headers, chunks=written)
        found = await written if inspect.isawaitable(written) else written
        raw: bytes = found.encode() if isinstance(found, str) else found
        return HttpResponse(200, headers, cut(raw, options))


def log_options(query: Query, name: str) -> dict[str, int]:
    """The numbers among the options, checked."""
    found: dict[str, int] = {}
    for key in ("tailLines", "sinceSeconds", "limitBytes"):
        text = query.get(key)
        if not text:
            continue
        try:
            found[key] = int(text)
        except ValueError:
            raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    causes = list(_log_problems(query, found))
    if causes:
        raise api_errors.invalid("PodLogOptions", "", name, causes)
    return found


def _log_problems(query: Query, found: dict[str, int]) -> Iterator[Cause]:
    if found.get("tailLines", 0) < 0:
        yield api_errors.invalid_value("tailLines", found["tailLines"], "must be greater than or equal to 0")
    if found.get("limitBytes", 1) < 1:
        yield api_errors.invalid_value("limitBytes", found["limitBytes"], "must be greater than 0")
    if "sinceSeconds" in found and query.get("sinceTime"):
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        yield api_errors.not_allowed("[]", text)
    elif found.get("sinceSeconds", 1) < 1:
        yield api_errors.invalid_value("sinceSeconds", found["sinceSeconds"], "must be greater than 0")
    stream = query.get("stream")
    if stream and stream not in ("All", "Stdout", "Stderr"):
        yield api_errors.unsupported("stream", stream, ("All", "Stdout", "Stderr"))
    elif stream in ("Stdout", "Stderr") and "tailLines" in found:
        yield api_errors.not_allowed("[]", "`tailLines` and specific `stream` are mutually exclusive for now")


def cut(raw: bytes, options: dict[str, int]) -> bytes:
    """The last lines, and so many bytes of them."""
    if "tailLines" in options:
        wanted = options["tailLines"]
        lines = raw.splitlines(keepends=True)
        raw = b"".join(lines[-wanted:]) if wanted else b""
    return raw[: options["limitBytes"]] if "limitBytes" in options else raw


def choose_container(pod: JsonObject, wanted: str) -> str:
    """The container that is meant; a pod with several needs to be told."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    known: dict[str, list[str]] = {
        k: [c["name"] for c in spec.get(k) or ()] for k in ("initContainers", "containers", "ephemeralContainers")
    }
    everybody = [c for names in known.values() for c in names]
    if wanted:
        if wanted not in everybody:
            raise api_errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(everybody) == 1:
        return everybody[0]
    first, *more = (f"[{' '.join(names)}]" for key, names in known.items() if names and key != "initContainers")
    text = f"a container name must be specified for pod {name}, choose one of: "
    if known["initContainers"]:
        first = f"[{' '.join([*known['initContainers'], *known['containers']])}]"
    suffix = f" or one of the ephemeral containers: {more[0]}" if more else ""
    raise api_errors.bad_request(f"{text}{first}{suffix}")


async def far_away(nodes: GenericStore, context: Context, pod: JsonObject, path: str) -> NoReturn:
    """The node would have to be asked, and there is none that listens."""
    place = await agent_of(nodes, context, pod)
    raise api_errors.plain(f'Get "https://{place}/{path}": dial tcp {place}: connect: connection refused')


async def agent_of(nodes: GenericStore, context: Context, pod: JsonObject) -> str:
    """Where the agent of a pod's node should listen."""
    status = (await nodes.get(context, pod["spec"]["nodeName"])).get("status") or {}
    addresses = status.get("addresses") or []
    if not addresses:
        raise api_errors.plain("no preferred addresses found; known addresses: []")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or AGENT_PORT
    return f"{addresses[0].get('address', '')}:{port}"


# ------------------------------------------------------------------ proxies
_KINDS = {"pods": "Pod", "services": "Service", "nodes": "Node"}


class ProxyStore:
    """``pods/proxy``, ``services/proxy``, ``nodes/proxy``: any method, any path behind it."""

    connect_methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    connect_verbs = ("create", "delete", "get", "patch", "update")

    def __init__(
        self, main: GenericStore, responders: Responders, *, endpoints: GenericStore, pods: GenericStore
    ) -> None:
        self._main = main
        self._responders = responders
        self._endpoints = endpoints
        self._pods = pods

    def connect_options(self, path: str, request: HttpRequest) -> JsonObject:
        """See `ConnectHandler`."""
        made: JsonObject = {"kind": f"{_KINDS[self._main.info.resource]}ProxyOptions", "apiVersion": "v1"}
        shown = path or request.query.get("path")
        return {**made, "path": shown} if shown else made

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:
        """See `Connecter`; `name` may be ``https:name:port``."""
        target = target_of(name, _KINDS[self._main.info.resource].lower())
        obj = await self._main.get(context, target.name)
        if self._responders.proxied is not None:
            answer = self._responders.proxied(obj, path, request)
            return await answer if inspect.isawaitable(answer) else answer
        where = await self._where(context, target, obj)
        raise ServiceUnavailableError(f"error trying to reach service: dial tcp {where}: connect: connection refused")

    async def _where(self, context: Context, target: Target, obj: JsonObject) -> str:
        match self._main.info.resource:
            case "pods":
                return pod_place(target, obj)
            case "services":
                points = await self._endpoints.get(context, target.name)
                pods = self._pods.list_now(self._pods.key_prefix(context.namespace), ListQuery()).items
                by_name = {pod["metadata"]["name"]: pod for pod in pods}
                return service_place(target, obj, points, by_name.get)
            case _:
                return node_place(target, obj)
