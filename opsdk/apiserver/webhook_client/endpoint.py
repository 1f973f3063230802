"""The endpoint of a ``clientConfig``. Pure.

Upstream: k8s.io/apiserver/pkg/util/webhook/serviceresolver.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from opsdk.structured_merge.value import JsonObject


class ClientConfigError(Exception):
    """The ``clientConfig`` is unusable; the message is Go's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfigTarget:
    """A parsed ``clientConfig``.

    Attributes:
        authority: as in the URL, e.g. ``127.0.0.1:9443`` or ``name.namespace.svc:443``.
        ca: PEM certificates to trust; empty for the system's.
        service: namespace and name of the Service, or None for a URL.
    """

    authority: str
    host: str
    port: int
    path: str
    ca: bytes = field(default=b"", repr=False)
    service: tuple[str, str] | None = None

    def target(self, timeout: int) -> str:
        """Return the request target; `timeout` is in seconds."""
        return f"{self.path}?timeout={timeout}s"


def target_of(config: JsonObject) -> ClientConfigTarget:
    """Parse a validated ``clientConfig``.

    >>> target_of({"service": {"name": "hooks", "namespace": "ops", "path": "/check"}}).target(10)
    '/check?timeout=10s'
    """
    ca, bundle = b"", config.get("caBundle") or ""
    if bundle:
        with contextlib.suppress(binascii.Error, ValueError):
            ca = base64.b64decode(bundle, validate=True)
        if b"-----BEGIN CERTIFICATE-----" not in ca:
            raise ClientConfigError("unable to load root certificates: unable to parse bytes as PEM block")
    service = config.get("service")
    if service:
        name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
        host = f"{name}.{namespace}.svc"
        path = _path(service.get("path") or "")
        return ClientConfigTarget(
            authority=f"{host}:{port}", host=host, port=port, path=path, ca=ca, service=(namespace, name)
        )
    try:
        url = urlsplit(config.get("url") or "")
        host, port = url.hostname or "", url.port or 443
    except ValueError as error:
        raise ClientConfigError(f"Unparsable webhook URL: {error}") from None
    return ClientConfigTarget(authority=url.netloc, host=host, port=port, path=_path(url.path), ca=ca)


def _path(path: str) -> str:
    """Return the path with one leading slash and no trailing one."""
    return "/" + "/".join(part for part in path.split("/") if part)
