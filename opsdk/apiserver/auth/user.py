"""`User`: name, UID, groups and extra values of an authenticated user.

Upstream: k8s.io/apiserver/pkg/authentication/user/user.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.structured_merge.value import JsonObject

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Name, UID, groups and extra values, as the authenticator provides them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def user_info(self) -> JsonObject:
        """Return the ``UserInfo`` of reviews, audit events and signing requests, without empty fields."""
        extra = {key: list(values) for key, values in self.extra.items()}
        fields = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {name: value for name, value in fields.items() if value}


ANONYMOUS = User(name="system:anonymous", groups=(UNAUTHENTICATED,))
"""The user of requests without credentials."""

LOOPBACK = User(name="system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The user of the server's own requests."""
