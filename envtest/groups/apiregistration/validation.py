"""Validation of APIServices.

Upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def validate_name(obj: JsonObject) -> Iterator[Cause]:
    """Validate that the name is ``<version>.<group>``."""
    spec, meta = obj.get("spec") or {}, obj["metadata"]
    expected = f"{spec.get('version', '')}.{spec.get('group', '')}"
    for key in ("generateName", "name"):
        name = meta.get(key)
        if name and name != expected and not validation.path_segment(name):
            reason = f'must be `spec.version+"."+spec.group`: {api_errors.quoted(expected)}'
            yield api_errors.invalid_value(f"metadata.{key}", name, reason)


def validate_spec(spec: JsonObject) -> Iterator[Cause]:
    """Validate group, version, priorities and the Service reference."""
    group, version = spec.get("group") or "", spec.get("version") or ""
    if not group and version != "v1":
        yield api_errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    for reason in validation.dns_subdomain(group) if group else ():
        yield api_errors.invalid_value("spec.group", group, reason)
    for reason in validation.dns_1035_label(version):
        yield api_errors.invalid_value("spec.version", version, reason)
    for key, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(key) or 0
        if not 0 < number <= most:
            yield api_errors.invalid_value(f"spec.{key}", number, f"must be positive and less than {most}")
    if spec.get("service") is None:
        bundle = spec.get("caBundle")
        if bundle:
            size = f"{len(bundle.rstrip('=')) * 3 // 4} bytes"
            yield api_errors.invalid_value("spec.caBundle", size, "local APIServices may not have a caBundle")
        if spec.get("insecureSkipTLSVerify"):
            reason = "local APIServices may not have insecureSkipTLSVerify"
            yield api_errors.invalid_value("spec.insecureSkipTLSVerify", True, reason)
    else:
        yield from _remote(spec)


def _remote(spec: JsonObject) -> Iterator[Cause]:
    service = spec["service"]
    for key in ("namespace", "name"):
        if not service.get(key):
            yield api_errors.required(f"spec.service.{key}")
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        reason = "port is not valid: must be between 1 and 65535, inclusive"
        yield api_errors.invalid_value("spec.service.port", port, reason)
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        yield api_errors.invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")
