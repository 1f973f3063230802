"""Validation of secrets.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping

from envtest.groups.core.validation.config_map import MAX_SIZE, decoded_size, validate_keys
from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apimachinery.serializer.json_errors import first_fault
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}
_DOCKER = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}


def validate_secret(obj: JsonObject) -> Iterator[Cause]:
    """Validate keys, size and the data that the type requires."""
    data, kind = obj.get("data") or {}, obj.get("type", "")
    yield from validate_keys("data", data, {})
    if decoded_size(data) > MAX_SIZE:
        yield api_errors.too_long("data", MAX_SIZE)
    yield from (api_errors.required(f"data[{key}]") for key in _KEYS.get(kind, ()) if key not in data)
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield api_errors.required("data[ssh-privatekey]")
    yield from _docker_config(kind, data)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield api_errors.required("data[username]")
        yield api_errors.required("data[password]")
    if kind == "kubernetes.io/service-account-token":
        annotations = obj["metadata"].get("annotations") or {}
        if not annotations.get("kubernetes.io/service-account.name"):
            yield api_errors.required("metadata.annotations[kubernetes.io/service-account.name]")


def _docker_config(kind: str, data: Mapping[str, str]) -> Iterator[Cause]:
    """Validate that registry credentials are JSON. The error does not show the value."""
    key = _DOCKER.get(kind, "")
    if key not in data:
        return
    raw = base64.b64decode(data[key] or "")
    reason = ""
    try:
        read = json.loads(raw)
    except ValueError:
        reason = first_fault(raw) or "unexpected end of JSON input"
    else:
        if read is not None and not isinstance(read, dict):
            reason = f"json: cannot unmarshal {json_kind(read)} into Go value of type map[string]interface {{}}"
    if reason:
        yield api_errors.invalid_value(f"data[{key}]", "<secret contents redacted>", reason)
