"""Types of ASGI 3 that client and server use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
"""Description of a request: method, path, headers."""

Message = MutableMapping[str, Any]
"""One event between server and application."""

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI 3 application."""

USER = "opsdk.user"
"""Key of ``http.response.start`` for the user whose budget of unread bytes the response counts for."""
CUT = "opsdk.cut"
"""Key of ``scope["extensions"]`` for a function that closes the connection at once, without a response."""

UPGRADE = "opsdk.upgrade"
"""Key of ``scope["extensions"]`` for a function that sends 101 with the given headers and returns an `UpgradedStream`.
Absent if the connection cannot be upgraded."""

PEER_CERTIFICATE = "opsdk.peer_certificate"
"""Key of ``scope["extensions"]`` for the client's certificate, in DER."""

PEER_INTERMEDIATES = "opsdk.peer_intermediates"
"""Key of ``scope["extensions"]`` for the other certificates that the client sent, in DER. They are not verified."""
