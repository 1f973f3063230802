"""Pods taken apart: their containers, of all three sorts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opsdk.structured_merge.value import JsonObject

CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
"""In the order in which the server visits them."""


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """Every container, of all three sorts."""
    for key in CONTAINERS:
        yield from spec.get(key) or ()


def containers_at(spec: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Every container with its path below that of the spec."""
    for key in CONTAINERS:
        for index, container in enumerate(spec.get(key) or ()):
            yield container, f"{path}.{key}[{index}]"
