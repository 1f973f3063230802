"""The client of running Pods: what `kubectl logs`, `kubectl exec`, `kubectl cp` and `kubectl port-forward` do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.errors import ExitError, UsageError
from opsdk.pods.all_logs import containers_with_log, merged, read_pod
from opsdk.pods.command import (
    CommandStream,
    all_at_once,
    attach_request,
    exec_request,
    open_command,
    run_command,
)
from opsdk.pods.command_output import CommandOutput, ExecResult
from opsdk.pods.copying import CopyTarget, copy_from, copy_to
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
# Seconds, bytes and number of the files of one copy. All are on the disk, and the names in memory.
_COPY_TIMEOUT = 600.0
_MAX_COPY_BYTES = 1 << 30
_MAX_COPY_FILES = 10_000


class PodClient:
    """Reads logs of containers, runs commands in them, copies files, and connects to ports: ``cluster.pods``.

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

    async def all_logs(
        self, pod: ObjectKey | str, *, max_line_bytes: int = _MAX_LINE_BYTES, **options: Unpack[LogKeywords]
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Iterate over the lines of all containers of a Pod, each with its container's name, as they arrive.

        These are the init containers, the containers and the ephemeral containers that have started when the iteration
        begins; with `previous`, those that have restarted. It ends when all logs have ended. Lines of one container are
        in order, and each log has one line in memory.

        >>> async def show(pods: PodClient) -> None:
        ...     async with aclosing(pods.all_logs("default/web", follow=True)) as lines:
        ...         async for container, line in lines:
        ...             print(container, line)

        Args:
            pod: ``namespace/name``. The user may read it: declare `opsdk.rbac.rules.reads` beside ``reads_logs``.
            max_line_bytes: a longer line is an error.

        Keyword Args are those of `logs`, for each container; without `container`.

        Raises what `logs` raises for one of the containers, and closes the others.
        """
        if "container" in options:
            raise UsageError("all_logs reads all containers: leave out container, or use logs")
        names = containers_with_log(await read_pod(self._transport, pod), previous=options.get("previous", False))
        each: dict[str, LogKeywords] = {name: {**options, "container": name} for name in names}
        logs = {name: self.logs(pod, max_line_bytes=max_line_bytes, **query) for name, query in each.items()}
        async with aclosing(merged(logs)) as lines:
            async for container, line in lines:
                yield container, line

    # -------------------------------------------------------------- commands
    async def exec(
        self,
        pod: ObjectKey | str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        timeout: float | None = 60.0,
        max_output_bytes: int = _MAX_OUTPUT_BYTES,
        check: bool = False,
    ) -> ExecResult:
        """Run a command in a container, and return its exit status and output.

        A timeout, a cancellation or an error closes the connection. The kubelet then closes the command's stdin and
        output; a command that uses neither continues in the container. No call is repeated after a lost connection.

        >>> async def count_rows(pods: PodClient) -> int:
        ...     query = b"select count(*) from orders"
        ...     result = await pods.exec("default/db-0", ["psql", "-tA"], stdin=query, check=True)
        ...     return int(result.stdout)

        Args:
            pod: ``namespace/name``.
            command: the program and its arguments. No shell interprets them.
            container: its name; may be empty if the Pod has only one.
            stdin: all input, which needs a server of version 1.30; None for none.
            timeout: seconds for the whole command; None waits without limit.
            max_output_bytes: more bytes of stdout and stderr together are an error.
            check: an exit status that is not 0 is an error, as for ``subprocess.run``.

        Raises:
            ExitError: the command failed, and `check` is True.
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
        status = await run_command(self._transport, request, take=output.add, stdin=source, timeout=timeout)
        result = output.result(status)
        if check and status:
            raise ExitError(f"command {command[0]} in Pod {pod}", status=status, stderr=result.stderr)
        return result

    def open_exec(
        self,
        pod: ObjectKey | str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
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
            tty: run it in a terminal, whose size `CommandStream.resize` sets. Everything is then on stdout.

        Raises what `exec` raises; without timeout and limit.
        """
        request = exec_request(pod, command, container=container, has_stdin=stdin, tty=tty)
        self._refuse_dry_run(f"run {command[0]} in Pod {pod}")
        return open_command(self._transport, request)

    def attach(
        self, pod: ObjectKey | str, *, container: str = "", stdin: bool = False, tty: bool = False
    ) -> AbstractAsyncContextManager[CommandStream]:
        """Connect to the process that a container runs. Leaving the block closes the connection; the process continues.

        >>> async def first_output(pods: PodClient) -> bytes:
        ...     async with pods.attach("default/web", container="app") as stream:
        ...         _, data = await anext(stream)
        ...         return data

        Args:
            pod: ``namespace/name``.
            container: its name; may be empty if the Pod has only one.
            stdin: whether `CommandStream.write` sends input. The container has ``stdin: true`` too.
            tty: set it if the container has ``tty: true``. Everything is then on stdout.

        The output begins with what the process writes after the connection. The status at the end is 0, because the
        server does not send the exit status of the process.

        Raises what `open_exec` raises, for ``pods/attach``: declare `opsdk.rbac.rules.attaches`.
        """
        request = attach_request(pod, container=container, has_stdin=stdin, tty=tty)
        self._refuse_dry_run(f"attach to Pod {pod}")
        return open_command(self._transport, request)

    # -------------------------------------------------------------- files
    async def copy_from(
        self,
        pod: ObjectKey | str,
        source: str,
        destination: Path | str,
        *,
        container: str = "",
        timeout: float | None = _COPY_TIMEOUT,
        max_bytes: int = _MAX_COPY_BYTES,
        max_files: int = _MAX_COPY_FILES,
    ) -> None:
        """Copy a file or folder out of a container, with its ``tar``.

        The copy appears at the destination when it is complete, or not at all. It needs little memory, and on the disk
        of the destination twice its size.

        Args:
            pod: ``namespace/name``.
            source: a path in the container.
            destination: the path that the copy gets. A file there is replaced; a folder there is an error.
            container: its name; may be empty if the Pod has only one.
            timeout: seconds until the container has sent everything; None waits without limit.
            max_bytes: of the archive, which has all files and about 1 KiB for each.
            max_files: files, folders and links.

        Raises:
            CopyError: the path does not exist, the container has no ``tar``, or its archive is damaged or would write
                outside of the destination.
            ResponseLimitError: there are more than `max_bytes` or `max_files`.

        Also raises what `exec` raises.
        """
        self._refuse_dry_run(f"copy from Pod {pod}")
        target = CopyTarget(transport=self._transport, pod=pod, container=container, timeout=timeout)
        await copy_from(target, source, Path(destination), max_bytes=max_bytes, max_files=max_files)

    async def copy_to(
        self,
        pod: ObjectKey | str,
        source: Path | str,
        destination: str,
        *,
        container: str = "",
        timeout: float | None = _COPY_TIMEOUT,
    ) -> None:
        """Copy a local file or folder into a container, with its ``tar``, ``mv`` and ``rm``.

        The copy appears at the destination when it is complete, or not at all. It has the permissions of the local
        files, and the owner that the container's user gives them. A copy that fails because the container cannot be
        reached may leave a folder ``.opsdk-copy-*`` beside the destination.

        Args:
            pod: ``namespace/name``.
            source: a local path. Links are copied as links.
            destination: the path that the copy gets; its folder exists. A file there is replaced; a folder there that
                is not empty is an error.
            container: its name; may be empty if the Pod has only one.
            timeout: seconds until the container has received everything; None waits without limit.

        Raises:
            CopyError: the folder of the destination does not exist, the container has no ``tar`` or cannot write, or a
                local file cannot be read.

        Also raises what `exec` raises.
        """
        self._refuse_dry_run(f"copy to Pod {pod}")
        target = CopyTarget(transport=self._transport, pod=pod, container=container, timeout=timeout)
        await copy_to(target, Path(source), destination)

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
