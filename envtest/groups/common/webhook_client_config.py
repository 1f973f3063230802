"""Validation of webhook client configurations: URL, Service reference, review versions.

Upstream: k8s.io/apiserver/pkg/util/webhook/validation.go (v1.36)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_FORM = "; desired format: https://host[/path]"
_REVIEWS = ("v1", "v1beta1")


def validate_client_config(config: JsonObject, field: str) -> Iterator[Cause]:
    """Validate that exactly one of URL and Service is set, and is well-formed."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield api_errors.required(field, "exactly one of url or service is required")
    elif url is not None:
        url_path = f"{field}.url"
        try:
            parsed = urlsplit(url)
            host = parsed.netloc.rpartition("@")[2]
            _ = parsed.port
        except ValueError as error:
            yield api_errors.required(url_path, f'url must be a valid URL: parse "{url}": {error}{_FORM}')
            return
        if parsed.scheme != "https":
            yield api_errors.invalid_value(url_path, parsed.scheme, f"'https' is the only allowed URL scheme{_FORM}")
        if not host:
            yield api_errors.invalid_value(url_path, host, f"host must be specified{_FORM}")
        user = parsed.netloc.rpartition("@")[0]
        for present, what in (
            (user, "user information is"),
            (parsed.fragment, "fragments are"),
            (parsed.query, "query parameters are"),
        ):
            if present:
                yield api_errors.invalid_value(url_path, present, f"{what} not permitted in the URL")
    elif service is not None:
        yield from _service(service, f"{field}.service")


def _service(service: JsonObject, field: str) -> Iterator[Cause]:
    for key in ("name", "namespace"):
        if not service.get(key):
            yield api_errors.required(f"{field}.{key}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        reason = "port is not valid: must be between 1 and 65535, inclusive"
        yield api_errors.invalid_value(f"{field}.port", port, reason)
    path = service.get("path")
    if path and path != "/":
        yield from (api_errors.invalid_value(f"{field}.path", path, reason) for reason in _path_problems(path))


def _path_problems(path: str) -> Iterator[str]:
    if path == "//":
        yield "segment[0] may not be empty"
        return
    if not path.startswith("/"):
        yield "must start with a '/'"
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield f"segment[{index}] may not be empty"
        else:
            yield from (f"segment[{index}]: {reason}" for reason in validation.dns_subdomain(step))


def validate_review_versions(
    versions: Sequence[str] | None, field: str, *, missing: str = "", recognized: bool = True
) -> Iterator[Cause]:
    """Validate review versions: DNS labels, unique, one of them `recognized`; `missing` is a message."""
    if not versions:
        yield api_errors.required(field, missing)
        return
    unique: set[str] = set()
    for index, version in enumerate(versions):
        if version in unique:
            yield api_errors.invalid_value(f"{field}[{index}]", version, "duplicate version")
            continue
        unique.add(version)
        for reason in validation.dns_1035_label(version):
            yield api_errors.invalid_value(f"{field}[{index}]", version, reason)
    if recognized and not has_known_version(versions):
        reason = f"must include at least one of {', '.join(_REVIEWS)}"
        yield api_errors.invalid_value(field, list(versions), reason)


def has_known_version(versions: Sequence[str] | None) -> bool:
    """Return whether the server supports one of the review versions."""
    return any(version in _REVIEWS for version in versions or ())


def valid_bundle(bundle: str) -> bool:
    """Return whether a ``caBundle`` holds certificates."""
    try:
        raw = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError):
        return False
    return b"-----BEGIN CERTIFICATE-----" in raw and b"-----END CERTIFICATE-----" in raw
