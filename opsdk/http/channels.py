"""Channel numbers of exec and attach over a WebSocket, for client and server.

Upstream: k8s.io/apimachinery/pkg/util/remotecommand/constants.go (v1.36)
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class StreamChannel(IntEnum):
    """The channels of a remote command."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


CLOSE: Final = 255
"""The channel on which a client closes another one, since ``v5.channel.k8s.io``."""
EXIT_CODE: Final = "NonZeroExitCode"
"""The reason of a Status with the exit code of a command that failed."""
EXIT_CODE_CAUSE: Final = "ExitCode"
"""The reason of its cause, whose message is the number."""
