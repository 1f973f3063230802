"""Kinds with two served versions of different schemas. Managed fields are converted to the version of their manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from envtest.groups.autoscaling.conversion import OLD, to_new, to_old
from envtest.groups.common.model import Typing
from envtest.groups.events.conversion import in_version
from opsdk.structured_merge.value import JsonObject, JsonValue

Convert = Callable[[JsonObject, str], JsonObject]


_KINDS: Final[Mapping[str, tuple[Mapping[str, str], Convert]]] = {
    "HorizontalPodAutoscaler": (
        {
            "autoscaling/v1": "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
            "autoscaling/v2": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        },
        lambda obj, wanted: to_old(obj) if wanted == OLD else to_new(obj),
    ),
    "Event": ({"v1": "io.k8s.api.core.v1.Event", "events.k8s.io/v1": "io.k8s.api.events.v1.Event"}, in_version),
}
"""The type of each version, and the conversion between them."""


class ConvertedKind:
    """Converts a kind between two served versions; see `Versions`."""

    remote = True

    def __init__(self, typing: Typing, kind: str) -> None:
        self._typing = typing
        self._kind = kind

    def __repr__(self) -> str:
        return f"<ConvertedKind of {self._kind}>"

    @cached_property
    def shapes(self) -> Mapping[str, JsonValue]:
        return {version: self._typing.shapes.of(name) for version, name in _KINDS[self._kind][0].items()}

    async def convert(self, obj: JsonObject, api_version: str) -> JsonObject:
        if obj.get("apiVersion") == api_version:
            return obj
        return _KINDS[self._kind][1](obj, api_version)


def versions_of(typing: Typing, api_version: str, kind: str) -> ConvertedKind | None:
    """Return the served versions of a kind that has several; None for others."""
    return ConvertedKind(typing, kind) if kind in _KINDS and api_version in _KINDS[kind][0] else None
