"""The configuration inside a pod.

Upstream: k8s.io/client-go/rest/config.go, InClusterConfig (v1.36)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opsdk.errors import ConfigError
from opsdk.rest.config import RestConfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster_config(*, env: Mapping[str, str] | None = None, root: Path = SERVICE_ACCOUNT) -> RestConfig | None:
    """Return the configuration of the pod's service account, or None outside a pod.

    The token is read again each minute, because the kubelet replaces it.

    Raises:
        ConfigError: the service account is not mounted.
    """
    env = os.environ if env is None else env
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        return None
    token_file, ca_file = root / "token", root / "ca.crt"
    token = _read(token_file)
    if token is None:
        raise ConfigError(f"in a pod, but {token_file} cannot be read: set automountServiceAccountToken: true")
    return RestConfig(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        token=token,
        token_file=str(token_file),
        ca_file=str(ca_file) if ca_file.exists() else "",
        source="the service account of the pod",
        namespace=_read(root / "namespace") or "default",
        namespace_source=f"{root / 'namespace'}",
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
