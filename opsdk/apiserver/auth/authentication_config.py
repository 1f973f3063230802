"""Reads client CA and request header settings from ``extension-apiserver-authentication``.

Upstream: k8s.io/apiserver/pkg/server/options/authentication_dynamic_request_header.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from opsdk.apiserver.auth.front_proxy import HeaderNames
from opsdk.errors import ConfigError

__all__ = ["NAME", "NAMESPACE", "ClientAuthenticationConfig"]

NAMESPACE = "kube-system"
"""Namespace of the ConfigMap `NAME`."""
NAME = "extension-apiserver-authentication"
"""Name of the ConfigMap that kube-apiserver publishes for extension API servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAuthenticationConfig:
    """The contents of the ConfigMap ``extension-apiserver-authentication``.

    Attributes:
        clients: PEM certificates of the client CA; may be empty.
        proxies: PEM certificates of the request header CA.
        names: allowed common names of proxies; empty allows all.
        headers: names of the headers with the user.
    """

    clients: bytes = b""
    proxies: bytes = b""
    names: tuple[str, ...] = ()
    headers: HeaderNames = field(default_factory=HeaderNames)

    @classmethod
    def of(cls, data: Mapping[str, str]) -> ClientAuthenticationConfig:
        """Parse the ConfigMap's ``data``. Raises `ConfigError`."""
        proxies = data.get("requestheader-client-ca-file", "")
        if not proxies:
            raise ConfigError(
                f"{NAMESPACE}/{NAME} has no requestheader-client-ca-file: the server in front has no proxy certificate"
            )
        headers = HeaderNames(
            user=_lowered(data, "requestheader-username-headers"),
            uid=_lowered(data, "requestheader-uid-headers"),
            group=_lowered(data, "requestheader-group-headers"),
            extra=_lowered(data, "requestheader-extra-headers-prefix"),
        )
        names = _listed(data, "requestheader-allowed-names")
        clients = data.get("client-ca-file", "")
        return cls(clients=clients.encode(), proxies=proxies.encode(), names=names, headers=headers)

    @property
    def bundle(self) -> bytes:
        """The CA certificates for client certificates in TLS."""
        return self.clients + b"\n" + self.proxies


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        items = json.loads(data.get(key) or "[]")
    except ValueError:
        items = None
    if not isinstance(items, list) or not all(isinstance(text, str) for text in items):
        raise ConfigError(f"{NAMESPACE}/{NAME}: {key} is not a list of strings in JSON: {data.get(key)!r}")
    return tuple(items)


def _lowered(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _listed(data, key))
