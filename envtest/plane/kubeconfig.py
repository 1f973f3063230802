"""Kubeconfig files for users of a local server."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from envtest.plane.pki import KeyPair
from opsdk.apimachinery.serializer.yaml_writer import write_yaml


def user_kubeconfig(server: str, *, ca: bytes = b"", client: KeyPair | None = None, token: str = "") -> str:
    """Return a kubeconfig with one cluster, user and context, named ``envtest``."""
    cluster = {"server": server}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    user = {}
    if client is not None:
        user["client-certificate-data"] = base64.b64encode(client.cert).decode()
        user["client-key-data"] = base64.b64encode(client.key).decode()
    elif token:
        user["token"] = token
    name = "envtest"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return write_yaml(config, sort_keys=False)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; replace an old one atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
