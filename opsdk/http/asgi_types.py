"""The shapes of ASGI that opsdk's servers use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
"""What is known of a connection before its first byte of body."""

Message = MutableMapping[str, Any]
"""One event between server and application."""

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI 3 application."""

CUT = "opsdk.cut"
"""Key of ``scope["extensions"]`` with a function that ends the connection at once, without a word."""

UPGRADE = "opsdk.upgrade"
"""Key of ``scope["extensions"]`` with a function that sends 101 with the given headers and returns an `UpgradedStream`;
absent where the connection cannot be upgraded."""

PEER_CERTIFICATE = "opsdk.peer_certificate"
"""Key of ``scope["extensions"]`` under which `opsdk.http.server.server` puts the client's certificate, in DER."""
