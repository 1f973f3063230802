"""Kubeconfig files for users of a local server."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path

from envtest.plane.pki import KeyPair

# Written without a YAML library, whose import would take a twentieth of the server's start.
_CONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: envtest
  cluster:
{cluster}
users:
- name: envtest
  user:{user}
contexts:
- name: envtest
  context:
    cluster: envtest
    user: envtest
current-context: envtest
"""


def user_kubeconfig(server: str, *, ca: bytes = b"", client: KeyPair | None = None, token: str = "") -> str:
    """Return a kubeconfig with one cluster, user and context, named ``envtest``."""
    cluster = [f"server: {server}"]
    if ca:
        cluster.append(f"certificate-authority-data: {base64.b64encode(ca).decode()}")
    user: list[str] = []
    if client is not None:
        user.append(f"client-certificate-data: {base64.b64encode(client.cert).decode()}")
        user.append(f"client-key-data: {base64.b64encode(client.key).decode()}")
    elif token:
        user.append(f"token: {json.dumps(token)}")  # quoted: YAML could parse a token as a number
    return _CONFIG.format(cluster=_block(cluster), user="\n" + _block(user) if user else " {}")


def _block(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; replace an old one atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
