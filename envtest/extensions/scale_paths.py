"""The scale subresource of custom resources. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from envtest.groups.common.scale import scale_of
from opsdk.apiserver import api_errors
from opsdk.apiserver.field_errors import FieldError, invalid
from opsdk.structured_merge.go_format import go_typename, go_value
from opsdk.structured_merge.value import JsonObject, JsonValue

_MOST: Final = 2**31 - 1
_NONE: Final = -(2**31)
"""The value for missing replicas; an update must set them."""


class _MisplacedError(Exception):
    """A value on a path has the wrong type; the text is the server's message."""


class ScalePaths:
    """The paths of the scale subresource of a CRD version."""

    def __init__(self, paths: Mapping[str, JsonValue]) -> None:
        self._spec = paths["specReplicasPath"]
        self._status = paths["statusReplicasPath"]
        self._selector = paths.get("labelSelectorPath") or ""

    @property
    def replicas(self) -> tuple[str, ...]:
        """The path of the replicas, as managedFields writes it."""
        return tuple(f"f:{key}" for key in _keys(self._spec))

    def show(self, obj: JsonObject) -> JsonObject:
        """Return the Scale of an object."""
        result = self.to_write(obj)
        if result["spec"].get("replicas") == _NONE:
            raise api_errors.internal(f'the spec replicas field "{self._spec}" does not exist')
        return result

    def to_write(self, obj: JsonObject) -> JsonObject:
        """Return the Scale for an update; without replicas it has a placeholder, which `put` rejects."""
        try:
            replicas = _nested(obj, self._spec, int, _NONE)
            status: JsonObject = {"replicas": _nested(obj, self._status, int, 0)}
            selector = _nested(obj, self._selector, str, "") if self._selector else ""
        except _MisplacedError as error:
            raise api_errors.plain(str(error)) from None
        if selector:
            status["selector"] = selector
        return scale_of(obj, replicas=replicas, status=status)

    def put(self, obj: JsonObject, replicas: int) -> None:
        """Set the replicas of an object."""
        if replicas == _NONE:
            raise api_errors.bad_request(f'the spec replicas field "{self._spec}" cannot be empty')
        *parents, last = _keys(self._spec)
        for depth, key in enumerate(parents):
            value: JsonValue = obj.setdefault(key, {})
            if not isinstance(value, dict):
                path = ".".join(parents[: depth + 1])
                raise api_errors.plain(f"value cannot be set because .{path} is not a map[string]interface{{}}")
            obj = value
        obj[last] = replicas

    def check(self, obj: JsonObject, *, status_only: bool = False) -> Iterator[FieldError]:
        """Validate the replica counts and the selector of an object."""
        if not status_only:
            yield from _check_count(obj, self._spec)
        yield from _check_count(obj, self._status)
        if self._selector:
            try:
                _nested(obj, self._selector, str, "")
            except _MisplacedError as error:
                yield invalid(self._selector, "", str(error))


def _check_count(obj: JsonObject, path: str) -> Iterator[FieldError]:
    try:
        values = _nested(obj, path, int, 0)
    except _MisplacedError as error:
        yield invalid(path, 0, str(error))
        return
    if values < 0:
        yield invalid(path, values, "should be a non-negative integer")
    elif values > _MOST:
        yield invalid(path, values, f"should be less than or equal to {_MOST}")


def _keys(path: str) -> list[str]:
    return str(path).removeprefix(".").split(".")


def _nested(obj: JsonObject, path: str, kind: type, zero: JsonValue) -> JsonValue:
    """Return the value at `path`; `zero` if it is absent."""
    value: JsonValue = obj
    keys = _keys(path)
    for depth, key in enumerate(keys):
        if value is None:
            return zero
        if not isinstance(value, dict):
            raise _misplaced(keys[: depth + 1], value, "map[string]interface{}")
        if key not in value:
            return zero
        value = value[key]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _misplaced(keys, value, "int64" if kind is int else "string")
    return value


def _misplaced(keys: list[str], value: JsonValue, expected: str) -> _MisplacedError:
    position = ".".join(keys)
    return _MisplacedError(
        f".{position} accessor error: {go_value(value)} is of the type {go_typename(value)}, expected {expected}"
    )
