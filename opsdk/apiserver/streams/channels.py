"""Messages of exec, attach and port-forward over WebSocket: a channel number and bytes. Pure.

The protocol versions differ in the encoding (binary or base64), in the final status (text or ``Status``), and in the
ability to close one stream.

Upstream: k8s.io/apimachinery/pkg/util/remotecommand/constants.go (v1.36).
"""

from __future__ import annotations

import base64
import json

import msgspec

from opsdk.http.channels import CLOSE, EXIT_CODE, EXIT_CODE_CAUSE
from opsdk.structured_merge.value import JsonObject


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the protocol.

    Attributes:
        text: messages are text: a digit and base64.
        status: the final status is a Status object.
        closing: clients can close a stream.
    """

    text: bool = False
    status: bool = False
    closing: bool = False

    def write(self, channel: int, data: bytes) -> bytes | str:
        """Encode bytes of a channel as a message."""
        if self.text:
            return f"{channel}{base64.b64encode(data).decode()}"
        return bytes((channel,)) + data

    def read(self, message: bytes | str) -> Piece | None:
        """Decode a message; None if it is not of this protocol."""
        raw = message.encode() if isinstance(message, str) else message
        if not raw:
            return None
        if not self.text:
            channel, data = raw[0], raw[1:]
        else:
            try:
                channel, data = int(raw[:1]), base64.b64decode(raw[1:], validate=True)
            except ValueError:
                return None
        if channel == CLOSE and self.closing:
            return Piece(channel=data[0], ends=True) if data else None
        return Piece(channel=channel, data=data)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a channel, or its end."""

    channel: int
    data: bytes = b""
    ends: bool = False


COMMANDS = {
    "v5.channel.k8s.io": Dialect(status=True, closing=True),
    "v4.channel.k8s.io": Dialect(status=True),
    "v4.base64.channel.k8s.io": Dialect(status=True, text=True),
    "channel.k8s.io": Dialect(),
    "base64.channel.k8s.io": Dialect(text=True),
    "": Dialect(),
}
"""Dialects of exec and attach by subprotocol."""
PORTS = {
    "v4.channel.k8s.io": Dialect(),
    "v4.base64.channel.k8s.io": Dialect(text=True),
    "": Dialect(),
}
"""Dialects of port-forward by subprotocol."""


def exit_status(code: int) -> JsonObject:
    """Return the Status of a command that ended with this exit code."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": EXIT_CODE,
        "details": {"causes": [{"reason": EXIT_CODE_CAUSE, "message": str(code)}]},
    }


def failure(text: str) -> JsonObject:
    """Return the Status of a command that failed without an exit code."""
    message = f"Internal error occurred: {text}"
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError"}
    return {**status, "details": {"causes": [{"message": text}]}, "code": 500}


def encode_status(status: JsonObject, *, as_object: bool) -> bytes:
    """Encode the final status for the error channel.

    Protocols before v4 send the message as text, and nothing on success; later ones send the Status `as_object`.
    """
    if as_object:
        return json.dumps(status, separators=(",", ":")).encode()
    return b"" if status["status"] == "Success" else str(status["message"]).encode()


def read_size(data: bytes) -> tuple[int, int] | None:
    """Parse columns and rows from a resize message; None if it is malformed."""
    try:
        size = json.loads(data)
        return int(size["Width"]), int(size["Height"])
    except (ValueError, KeyError, TypeError):
        return None
