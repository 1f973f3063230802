"""The client of running Pods: what `kubectl logs`, `kubectl exec` and `kubectl port-forward` do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Unpack, overload

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import UsageError
from opsdk.pods.command import CommandStream, all_at_once, exec_request, open_command, run_command
from opsdk.pods.command_output import CommandOutput, ExecResult
from opsdk.pods.lines import LineSplitter
from opsdk.pods.log_query import LogKeywords, log_query
from opsdk.pods.port_forward import PortForward, PortStream, open_port, port_request
from opsdk.pods.requests import pod_request
from opsdk.rest.transport import Transport

__all__ = ["PodClient"]

# Bytes. The kubelet joins the pieces of long lines, so that a line of JSON may have hundreds of kilobytes.
_MAX_LINE_BYTES = 1 << 20
# Bytes. The output is in memory.
_MAX_OUTPUT_BYTES = 16 << 20


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
        raw: Literal[False] = ...,
        max_line_bytes: int = ...,
        **options: Unpack[LogKeywords],
    ) -> AsyncGenerator[str, None]: ...
    @overload
    def logs(
        self, pod: ObjectKey | str, *, raw: Literal[True], max_line_bytes: int = ..., **options: Unpack[LogKeywords]
    ) -> AsyncGenerator[bytes, None]: ...
    async def logs(
        self,
        pod: ObjectKey | str,
        *,
        raw: bool = False,
        max_line_bytes: int = _MAX_LINE_BYTES,
        **options: Unpack[LogKeywords],
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
            raw: yield bytes. Otherwise lines are UTF-8, and invalid bytes become U+FFFD.
            max_line_bytes: a longer line is an error.

        Keyword Args:
            container: its name; may be left out if the Pod has only one.
            follow: wait for further lines until the container ends.
            since: only lines of the last seconds, or since a time.
            tail: only so many last lines.
            previous: the log of the container before its last restart.
            timestamps: begin each line with its time.
            limit_bytes: bytes after which the server ends the log.

        Raises:
            NotFoundError: the Pod does not exist.
            BadRequestError: the container does not exist, or has not started.
            ForbiddenError: the user may not ``get pods/log``: declare `opsdk.rbac.rules.reads_logs`.
            ConnectionLostError: the log was cut off. A caller that follows can begin again with `since`.
            ResponseLimitError: a line has more than `max_line_bytes`.
        """
        request = pod_request("GET", pod, "log", log_query(**options))
        splitter = LineSplitter(max_line_bytes)
        async with self._transport.stream(request, timeout=self._transport.config.timeout) as stream:
            async for data in stream:
                for line in splitter.feed(data):
                    yield line if raw else line.decode(errors="replace")
            for line in splitter.finish():
                yield line if raw else line.decode(errors="replace")

    # -------------------------------------------------------------- commands
    async def exec(
        self,
        pod: ObjectKey | str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        timeout: float | None = 60.0,  # noqa: ASYNC109 - it includes the opening of the connection
        max_output_bytes: int = _MAX_OUTPUT_BYTES,
    ) -> ExecResult:
        """Run a command in a container, and return its exit status and output.

        A timeout, a cancellation or an error closes the connection. The kubelet then closes the command's stdin and
        output; a command that uses neither continues in the container. No call is repeated after a lost connection.

        >>> async def count_rows(pods: PodClient) -> int:
        ...     result = await pods.exec("default/db-0", ["psql", "-tA"], stdin=b"select count(*) from orders")
        ...     if result.status:
        ...         raise TemporaryError(result.stderr.decode(errors="replace"))
        ...     return int(result.stdout)

        Args:
            pod: ``namespace/name``.
            command: the program and its arguments. No shell interprets them.
            container: its name; may be empty if the Pod has only one.
            stdin: all input, which needs a server of version 1.30; None for none.
            timeout: seconds for the whole command; None waits without limit.
            max_output_bytes: more bytes of stdout and stderr together are an error.

        Raises:
            NotFoundError: the Pod does not exist.
            BadRequestError: the container does not exist, or the Pod has no node yet.
            ForbiddenError: the user may not ``get`` and ``create pods/exec``: declare `opsdk.rbac.rules.executes`.
            InternalServerError: the command was not run, for example because the container has no such program.
            ConnectionLostError: the connection ended before the exit status; the command may have had effects.
            DeadlineError: the timeout passed.
            ResponseLimitError: the command wrote more than `max_output_bytes`.
            LeaderElectionLostError: the task needs leadership, and this process has lost it.
            UsageError: the cluster is for a dry run, or an argument is wrong.
        """
        request = exec_request(pod, command, container=container, has_stdin=stdin is not None)
        self._refuse_dry_run(f"run {command[0]} in Pod {pod}")
        output = CommandOutput(max_output_bytes)
        source = None if stdin is None else all_at_once(stdin)
        return output.result(
            await run_command(self._transport, request, take=output.add, stdin=source, timeout=timeout)
        )

    def open_exec(
        self, pod: ObjectKey | str, command: Sequence[str], *, container: str = "", stdin: bool = False
    ) -> AbstractAsyncContextManager[CommandStream]:
        """Run a command whose output is read as it arrives. Leaving the block closes the connection.

        >>> async def dump(pods: PodClient, save: Callable[[bytes], None]) -> None:
        ...     async with pods.open_exec("default/db-0", ["pg_dump", "shop"]) as stream:
        ...         async for name, data in stream:
        ...             if name == "stdout":
        ...                 save(data)
        ...     assert stream.status == 0

        Args:
            pod: ``namespace/name``.
            command: the program and its arguments. No shell interprets them.
            container: its name; may be empty if the Pod has only one.
            stdin: whether `CommandStream.write` sends input, which needs a server of version 1.30.

        Raises what `exec` raises; without timeout and limit.
        """
        request = exec_request(pod, command, container=container, has_stdin=stdin)
        self._refuse_dry_run(f"run {command[0]} in Pod {pod}")
        return open_command(self._transport, request)

    # -------------------------------------------------------------- ports
    def open_port(self, pod: ObjectKey | str, port: int) -> AbstractAsyncContextManager[PortStream]:
        r"""Connect to a port of a Pod. Leaving the block closes the connection.

        >>> async def greet(pods: PodClient) -> bytes:
        ...     async with pods.open_port("default/web", 8080) as stream:
        ...         await stream.write(b"GET / HTTP/1.0\r\n\r\n")
        ...         return await stream.read()

        Args:
            pod: ``namespace/name``.
            port: in the Pod. A server there sees a connection of its own host.

        Raises:
            NotFoundError: the Pod does not exist.
            ForbiddenError: the user may not ``get`` and ``create pods/portforward``: declare
                `opsdk.rbac.rules.forwards_ports`.
            UsageError: the cluster is for a dry run.
        """
        self._refuse_dry_run(f"connect to port {port} of Pod {pod}")
        return open_port(self._transport, port_request(pod, port), port)

    def port_forward(self, pod: ObjectKey | str, port: int, *, local_port: int = 0) -> PortForward:
        """Return a local port on 127.0.0.1 that leads to a port of a Pod, inside an ``async with`` block.

        Raises what `open_port` raises, when the block begins. Later failures are in `PortForward.last_error`, and close
        the local connection.
        """
        self._refuse_dry_run(f"forward port {port} of Pod {pod}")
        return PortForward(self._transport, pod, port, local_port=local_port)

    def _refuse_dry_run(self, what: str) -> None:
        if self._dry_run:
            raise UsageError(f"cannot {what}: the cluster has dry_run=True, and what happens in a Pod has no dry run")

    def __repr__(self) -> str:
        return f"<PodClient of {self._transport!r}>"
