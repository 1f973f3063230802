"""Converts objects and field sets between API versions.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opsdk.errors import ApiError, PatchError
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.typed import check_typed
from opsdk.structured_merge.value import JsonValue

Convert = Callable[[Mapping[str, JsonValue], str], Mapping[str, JsonValue]]
"""Converts an object to another apiVersion."""


class VersionConverter:
    """The versions of one resource, from the version of a request."""

    def __init__(
        self, shape: Schema, api_version: str, *, convert: Convert | None, shapes: Mapping[str, Schema] | None
    ) -> None:
        """`shapes` are the schemas of the other served versions; None if they are unknown."""
        self.api_version = api_version
        self._shapes = {**(shapes or {}), api_version: shape}
        self._convert = convert
        self._complete = shapes is not None

    def shape(self, api_version: str) -> Schema:
        """Return the schema of this version."""
        return self._shapes[api_version]

    def can_convert_to(self, api_version: str) -> bool:
        """Report whether objects convert to this version."""
        return api_version in self._shapes

    def is_missing_version(self, api_version: str) -> bool:
        """Report whether this version is no longer served, so that its entries own nothing."""
        return self._complete and api_version not in self._shapes

    def convert(
        self, obj: Mapping[str, JsonValue], source: str, target: str, description: str
    ) -> Mapping[str, JsonValue]:
        """Convert `obj` from version `source` to `target`; errors call it `description`.

        Raises:
            ApiError: the object cannot be converted.
        """
        if source == target:
            return obj
        converted = self._convert(obj, target) if self._convert else {**obj, "apiVersion": target}
        try:
            check_typed(converted, self._shapes[target])
        except PatchError as error:
            text = f"failed to convert {description}: {error}" if description else str(error)
            raise ApiError(text, code=500, reason="") from error
        return converted
