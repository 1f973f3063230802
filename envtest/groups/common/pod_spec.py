"""Pod specs in pods and templates: their containers, and fields of disabled feature gates. Pure.

Upstream: pkg/api/pod/util.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opsdk.structured_merge.value import JsonObject

CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
"""Container fields, in the order in which the server visits them."""


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield the init, ordinary and ephemeral containers."""
    for key in CONTAINERS:
        yield from spec.get(key) or ()


def containers_at(spec: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Yield each container with its path below the spec."""
    for key in CONTAINERS:
        for index, container in enumerate(spec.get(key) or ()):
            yield container, f"{path}.{key}[{index}]"


_SECRET_SOURCES: Final = ("clusterTrustBundle", "podCertificate")


# ------------------------------------------------------------------ fields of disabled feature gates
def drop_disabled(spec: JsonObject, old: JsonObject | None = None) -> None:
    """Drop the fields of disabled feature gates unless the `old` spec uses them."""
    before = old or {}
    if before.get("schedulingGroup") is None:
        spec.pop("schedulingGroup", None)
    for key in _SECRET_SOURCES:
        if not any(source.get(key) is not None for source in _sources(before)):
            for source in _sources(spec):
                source.pop(key, None)
    if not any((container.get("lifecycle") or {}).get("stopSignal") is not None for container in containers(before)):
        for container in containers(spec):
            hooks = container.get("lifecycle") or {}
            if hooks.pop("stopSignal", None) is not None and not hooks:
                del container["lifecycle"]


def _sources(spec: JsonObject) -> Iterator[JsonObject]:
    for volume in spec.get("volumes") or ():
        yield from (volume.get("projected") or {}).get("sources") or ()
