"""``pods/log``.

Upstream: pkg/registry/core/pod/rest/log.go (v1.36)
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator

from envtest.groups.core.rest.kubelet import choose_container, raise_unreachable
from envtest.groups.core.rest.responders import Responders
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.errors import Cause
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.structured_merge.value import JsonValue


# ------------------------------------------------------------------ logs
class LogStore:
    """The store of ``pods/log``."""

    connect_methods = ("GET",)
    connect_verbs = ("get",)

    def __init__(self, pods: LocalStore, nodes: LocalStore, responders: Responders) -> None:
        self._pods = pods
        self._nodes = nodes
        self._responders = responders

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:
        options = log_options(request.query, name)
        pod = await self._pods.get(context, name)
        container = choose_container(pod, request.query.get("container"))
        if not pod["spec"].get("nodeName"):
            return HttpResponse(204, [])
        if self._responders.logs is None:
            await raise_unreachable(self._nodes, context, pod, f"containerLogs/{context.namespace}/{name}/{container}")
        written: JsonValue = self._responders.logs(pod, container)
        headers = [("content-type", "text/plain")]
        if isinstance(written, AsyncGenerator):
            return StreamResponse(200, headers, chunks=written, is_patient=True)
        content = await written if inspect.isawaitable(written) else written
        raw: bytes = content.encode() if isinstance(content, str) else content
        return HttpResponse(200, headers, cut(raw, options))


def log_options(query: Query, name: str) -> dict[str, int]:
    """Parse and validate the numeric log options."""
    options: dict[str, int] = {}
    for key in ("tailLines", "sinceSeconds", "limitBytes"):
        text = query.get(key)
        if not text:
            continue
        try:
            options[key] = int(text)
        except ValueError:
            raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    causes = list(_validate_log_options(query, options))
    if causes:
        raise api_errors.invalid("PodLogOptions", "", name, causes)
    return options


def _validate_log_options(query: Query, numbers: dict[str, int]) -> Iterator[Cause]:
    """Yield what is wrong with the parameters of a log."""
    if numbers.get("tailLines", 0) < 0:
        yield api_errors.invalid_value("tailLines", numbers["tailLines"], "must be greater than or equal to 0")
    if numbers.get("limitBytes", 1) < 1:
        yield api_errors.invalid_value("limitBytes", numbers["limitBytes"], "must be greater than 0")
    if "sinceSeconds" in numbers and query.get("sinceTime"):
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        yield api_errors.not_allowed("[]", text)
    elif numbers.get("sinceSeconds", 1) < 1:
        yield api_errors.invalid_value("sinceSeconds", numbers["sinceSeconds"], "must be greater than 0")
    stream = query.get("stream")
    if stream and stream not in ("All", "Stdout", "Stderr"):
        yield api_errors.unsupported("stream", stream, ("All", "Stdout", "Stderr"))
    elif stream in ("Stdout", "Stderr") and "tailLines" in numbers:
        yield api_errors.not_allowed("[]", "`tailLines` and specific `stream` are mutually exclusive for now")


def cut(raw: bytes, options: dict[str, int]) -> bytes:
    """Apply ``tailLines`` and ``limitBytes`` to a log."""
    if "tailLines" in options:
        tail_lines = options["tailLines"]
        lines = raw.splitlines(keepends=True)
        raw = b"".join(lines[-tail_lines:]) if tail_lines else b""
    return raw[: options["limitBytes"]] if "limitBytes" in options else raw
