"""The client of running Pods: what `kubectl logs`, `kubectl exec` and `kubectl port-forward` do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any, Literal, overload

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.client import as_key
from opsdk.errors import UsageError
from opsdk.pods.lines import LineSplitter
from opsdk.pods.log_query import log_query
from opsdk.rest.request import RestRequest, resource_path
from opsdk.rest.transport import Transport

__all__ = ["PodClient"]

# Bytes. The kubelet joins the pieces of long lines, so that a line of JSON may have hundreds of kilobytes.
_MAX_LINE_BYTES = 1 << 20


class PodClient:
    """Reads logs of containers, runs commands in them, and connects to their ports: ``cluster.pods``.

    Requests have the credentials, proxies, limits and telemetry of all other requests of the cluster.

    Args:
        transport: of the API server.
        dry_run: refuse commands and connections, because they cannot be tried.
    """

    def __init__(self, transport: Transport, *, dry_run: bool = False) -> None:
        self._transport = transport
        self._dry_run = dry_run

    # -------------------------------------------------------------- logs
    @overload
    def logs(
        self,
        pod: ObjectKey | str,
        *,
        container: str = ...,
        follow: bool = ...,
        since: float | timedelta | datetime | None = ...,
        tail: int | None = ...,
        previous: bool = ...,
        timestamps: bool = ...,
        limit_bytes: int | None = ...,
        max_line_bytes: int = ...,
        raw: Literal[False] = ...,
    ) -> AsyncGenerator[str, None]: ...
    @overload
    def logs(
        self,
        pod: ObjectKey | str,
        *,
        container: str = ...,
        follow: bool = ...,
        since: float | timedelta | datetime | None = ...,
        tail: int | None = ...,
        previous: bool = ...,
        timestamps: bool = ...,
        limit_bytes: int | None = ...,
        max_line_bytes: int = ...,
        raw: Literal[True],
    ) -> AsyncGenerator[bytes, None]: ...
    async def logs(
        self,
        pod: ObjectKey | str,
        *,
        container: str = "",
        follow: bool = False,
        since: float | timedelta | datetime | None = None,
        tail: int | None = None,
        previous: bool = False,
        timestamps: bool = False,
        limit_bytes: int | None = None,
        max_line_bytes: int = _MAX_LINE_BYTES,
        raw: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over the lines of a container's log, without their newlines.

        Lines are read as they arrive, so a log of any size needs little memory. The end of the iteration, an exception
        in its block or a cancellation closes the connection; ``contextlib.aclosing`` closes it at once.

        >>> async def first_error(pods: PodClient) -> str | None:
        ...     async with aclosing(pods.logs("default/web", container="app", tail=100)) as lines:
        ...         async for line in lines:
        ...             if "ERROR" in line:
        ...                 return line
        ...     return None

        Args:
            pod: ``namespace/name``.
            container: its name; may be empty if the Pod has only one.
            follow: wait for further lines until the container ends.
            since: only lines of the last seconds, or since a time.
            tail: only so many last lines.
            previous: the log of the container before its last restart.
            timestamps: begin each line with its time.
            limit_bytes: bytes after which the server ends the log.
            max_line_bytes: a longer line is an error.
            raw: yield bytes. Otherwise lines are UTF-8, and invalid bytes become U+FFFD.

        Raises:
            NotFoundError: the Pod does not exist.
            BadRequestError: the container does not exist, or has not started.
            ForbiddenError: the user may not ``get pods/log``: declare `opsdk.rbac.rules.reads_logs`.
            ConnectionLostError: the log was cut off. A caller that follows can begin again with `since`.
            ResponseLimitError: a line has more than `max_line_bytes`.
        """
        options = log_query(
            container=container,
            follow=follow,
            since=since,
            tail=tail,
            previous=previous,
            timestamps=timestamps,
            limit_bytes=limit_bytes,
        )
        request = pod_request("GET", pod, "log", options)
        splitter = LineSplitter(max_line_bytes)
        async with self._transport.stream(request, timeout=self._transport.config.timeout) as stream:
            async for data in stream:
                for line in splitter.feed(data):
                    yield line if raw else line.decode(errors="replace")
            for line in splitter.finish():
                yield line if raw else line.decode(errors="replace")

    def __repr__(self) -> str:
        return f"<PodClient of {self._transport!r}>"


def pod_request(method: str, pod: ObjectKey | str, subresource: str, query: list[tuple[str, str]]) -> RestRequest:
    """Return the request for a subresource of a Pod. Raises `UsageError` for a key without namespace."""
    key = as_key(pod)
    if not key.namespace:
        raise UsageError(f"the Pod is {pod!r}: write its namespace too, 'namespace/name'")
    return RestRequest(
        method,
        resource_path("", "v1", "pods", key.namespace, key.name, subresource),
        query=query,
        verb="get" if method == "GET" else "create",
        resource="pods",
        subresource=subresource,
        namespace=key.namespace,
        name=key.name,
        version="v1",
    )
