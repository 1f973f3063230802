"""`Call`: one request with its info, user and deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.auth.user import ANONYMOUS, User
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.registry.context import Context
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject


class Call(msgspec.Struct, kw_only=True):
    """The HTTP request, and the values that filters add to it.

    Attributes:
        user: the authenticated or the impersonated user.
        impersonator: the authenticated user of an impersonated request.
        authorizer: for checks inside handlers, e.g. for an update that creates.
        annotations: audit annotations.
        headers: added to every response, including errors.
        protobuf: the encoder of protobuf responses, if the server supports them.
    """

    http: HttpRequest
    info: RequestInfo
    user: User = ANONYMOUS
    impersonator: User | None = None
    authorizer: Authorizer | None = None
    protobuf: Callable[[JsonObject], bytes] | None = None
    audit_id: str = ""
    warnings: dict[str, None] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    headers: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a ``Warning`` header; a repeated text is sent once."""
        self.warnings[text] = None

    def annotate(self, key: str, value: str) -> None:
        """Add an audit annotation; the first value of a key is kept."""
        self.annotations.setdefault(key, value)

    def context(self, *, dry_run: bool = False) -> Context:
        """Return the context of a call into a registry."""
        manager = self.http.query.get("fieldManager") or self.http.header("user-agent").partition("/")[0]
        return Context(
            user=self.user,
            namespace=self.info.namespace,
            dry_run=dry_run,
            warn=self.warn,
            manager=manager[:128] or "unknown",
        )


Handler = Callable[[Call], Awaitable[HttpResponse]]
"""Handles a request."""
