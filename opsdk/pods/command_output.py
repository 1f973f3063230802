"""What a remote command sends: its output, and the Status with its exit code. Pure.

Upstream: k8s.io/client-go/tools/remotecommand/errorstream.go, v4.go (v1.36)
"""

from __future__ import annotations

from typing import Literal

import msgspec

from opsdk.errors import ConnectionLostError, DecodeError, RequestInfo, ResponseLimitError, api_error_from_status
from opsdk.http.channels import EXIT_CODE, EXIT_CODE_CAUSE, StreamChannel
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = ["ExecResult"]

# Bytes. The server's Status has a message of one line.
_MAX_STATUS = 64 * 1024
_QUOTED = 200

OutputName = Literal["stdout", "stderr"]
_OUTPUTS: dict[int, OutputName] = {StreamChannel.STDOUT: "stdout", StreamChannel.STDERR: "stderr"}


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command in a container ended.

    Attributes:
        status: the exit status; 0 is success. 126 and 127 often mean that the container has no such program.
        stdout: what it wrote to standard output.
        stderr: what it wrote to standard error.
    """

    status: int
    stdout: bytes = b""
    stderr: bytes = b""


class CommandOutput:
    """Gathers the output of a remote command.

    Args:
        max_bytes: of stdout and stderr together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._streams: dict[OutputName, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._size = 0

    def add(self, name: OutputName, data: bytes) -> None:
        """Take a piece of output. Raises `ResponseLimitError` if the command writes more than `max_bytes`."""
        self._size += len(data)
        if self._size > self._max_bytes:
            raise ResponseLimitError(
                f"the command wrote more than {self._max_bytes} bytes: pass a larger max_output_bytes, "
                "or let the command write less"
            )
        self._streams[name] += data

    def result(self, status: int) -> ExecResult:
        """Return the result of a command that ended with an exit status."""
        return ExecResult(status=status, stdout=bytes(self._streams["stdout"]), stderr=bytes(self._streams["stderr"]))

    def __repr__(self) -> str:
        return f"<CommandOutput: {self._size} bytes>"


class CommandMessages:
    """Decodes the messages of a remote command: pieces of output, and at the end its Status."""

    def __init__(self) -> None:
        self._error = bytearray()
        self._status: JsonObject | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the command has ended."""
        return self._status is not None

    def feed(self, message: bytes) -> tuple[OutputName, bytes] | None:
        """Return the output in a message; None for the Status and for other channels.

        Raises `DecodeError` if the server's Status is too long.
        """
        if not message:
            return None
        channel, data = message[0], message[1:]
        if channel == StreamChannel.ERROR:
            self._take_error(data)
        elif channel in _OUTPUTS and data:
            return _OUTPUTS[channel], data
        return None

    def _take_error(self, data: bytes) -> None:
        """Take a part of the Status. It is complete when it is valid JSON."""
        self._error += data
        if len(self._error) > _MAX_STATUS:
            raise DecodeError(f"the Status of the command has more than {_MAX_STATUS} bytes")
        if not self._error.rstrip().endswith(b"}"):
            return
        try:
            status = msgspec.json.decode(self._error)
        except JSON_ERRORS:
            return
        if isinstance(status, dict):
            self._status = status

    def exit_status(self, request: RequestInfo) -> int:
        """Return the exit status of a command whose messages have ended.

        Raises:
            ConnectionLostError: the messages ended before the Status.
            ApiError: the command was not run, or its exit code is unknown.
            DecodeError: the server's Status cannot be read.
        """
        if self._status is None and self._error:
            raise DecodeError(f"the Status of the command cannot be read: {bytes(self._error[:_QUOTED])!r}")
        if self._status is None:
            raise ConnectionLostError(
                "the connection ended before the exit status: the container, its Pod or its node may be gone"
            )
        return exit_code(self._status, request)

    def __repr__(self) -> str:
        return f"<CommandMessages{', complete' if self.is_complete else ''}>"


def exit_code(status: JsonObject, request: RequestInfo) -> int:
    """Return the exit code in the Status of a command. Raises `ApiError` for a Status of another failure.

    >>> exit_code({"status": "Success"}, RequestInfo(verb="create"))
    0
    """
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == EXIT_CODE:
        details = status.get("details")
        causes = (details.get("causes") if isinstance(details, dict) else None) or ()
        for cause in causes if isinstance(causes, list) else ():
            text = str(cause.get("message", "")) if isinstance(cause, dict) else ""
            if text.isdecimal() and text.isascii() and cause.get("reason") == EXIT_CODE_CAUSE:
                return int(text[:9])
    raise api_error_from_status(status, code=500, request=request)
