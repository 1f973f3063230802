"""The arguments of kopf handlers: the object with its parts, the patch, the memo, the filters. Pure.

Upstream: kopf/_cogs/structs/bodies.py, patches.py, ephemera.py; _core/intents/registries.py (1.45)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from enum import Enum
from typing import Any

from opsdk.migration.kopf_record import MISSING
from opsdk.structured_merge.value import JsonObject

__all__ = ["Body", "FilterToken", "KopfPatch", "Memo", "Meta"]


class FilterToken(Enum):
    """Values of filters that stand for the existence of a label, annotation or field."""

    PRESENT = "present"
    ABSENT = "absent"


class Meta(dict[str, Any]):
    """The metadata of an object, with attributes for its usual members."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels; empty without any."""
        return self.get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations; empty without any."""
        return self.get("annotations") or {}

    @property
    def name(self) -> str | None:
        """The name."""
        return self.get("name")

    @property
    def namespace(self) -> str | None:
        """The namespace; None for a cluster-scoped object."""
        return self.get("namespace")

    @property
    def uid(self) -> str | None:
        """The uid."""
        return self.get("uid")

    @property
    def creation_timestamp(self) -> str | None:
        """Time of the creation, in RFC 3339."""
        return self.get("creationTimestamp")

    @property
    def deletion_timestamp(self) -> str | None:
        """Time of the deletion; None if the object is not being deleted."""
        return self.get("deletionTimestamp")


class Body(dict[str, Any]):
    """An object as a dict, with attributes for its parts."""

    def __init__(self, tree: JsonObject) -> None:
        super().__init__(tree)
        self["metadata"] = Meta(tree.get("metadata") or {})

    @property
    def metadata(self) -> Meta:
        """The metadata."""
        metadata: Meta = self["metadata"]
        return metadata

    @property
    def meta(self) -> Meta:
        """The metadata."""
        return self.metadata

    @property
    def spec(self) -> JsonObject:
        """The spec; empty without one."""
        return self.get("spec") or {}

    @property
    def status(self) -> JsonObject:
        """The status; empty without one."""
        return self.get("status") or {}


class _Section(MutableMapping[str, Any]):
    """A part of a patch. A write creates the part."""

    def __init__(self, parent: MutableMapping[str, Any], name: str) -> None:
        self._parent, self._name = parent, name

    def _items(self) -> Mapping[str, Any]:
        return self._parent.get(self._name) or {}

    def __getitem__(self, key: str) -> Any:
        return self._items()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not self._parent.get(self._name):
            self._parent[self._name] = {}
        self._parent[self._name][key] = value

    def __delitem__(self, key: str) -> None:
        del self._parent[self._name][key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())


class _MetaSection(_Section):
    @property
    def labels(self) -> _Section:
        """The labels."""
        return _Section(self, "labels")

    @property
    def annotations(self) -> _Section:
        """The annotations."""
        return _Section(self, "annotations")


class KopfPatch(dict[str, Any]):
    """A JSON merge patch of the object, which is sent after the handlers.

    >>> patch = KopfPatch()
    >>> patch.status["phase"] = "Ready"
    >>> patch.metadata.labels["tier"] = "web"
    >>> patch
    {'status': {'phase': 'Ready'}, 'metadata': {'labels': {'tier': 'web'}}}
    """

    @property
    def metadata(self) -> _MetaSection:
        """The metadata."""
        return _MetaSection(self, "metadata")

    @property
    def meta(self) -> _MetaSection:
        """The metadata."""
        return self.metadata

    @property
    def spec(self) -> _Section:
        """The spec."""
        return _Section(self, "spec")

    @property
    def status(self) -> _Section:
        """The status."""
        return _Section(self, "status")


class Memo(dict[str, Any]):
    """Values that the handlers of one object share, until the operator ends."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError as error:
            raise AttributeError(name) from error


def matches_metadata(pattern: Mapping[str, Any], content: Mapping[str, str], arguments: Mapping[str, Any]) -> bool:
    """Whether labels or annotations match a filter: values, `FilterToken`, or functions of the value."""
    return all(_matches(expected, content.get(key, MISSING), arguments) for key, expected in pattern.items())


def _matches(expected: Any, value: Any, arguments: Mapping[str, Any]) -> bool:
    if expected is FilterToken.ABSENT or expected is FilterToken.PRESENT:
        return (value is MISSING) is (expected is FilterToken.ABSENT)
    if callable(expected):
        return bool(expected(None if value is MISSING else value, **arguments))
    return bool(value is not MISSING and expected == value)


def matches_value(expected: Any, value: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether the value of a field matches a filter. None as the filter means that the field exists."""
    if expected is None:
        return value is not MISSING
    if callable(expected) and not isinstance(expected, FilterToken):
        function: Callable[..., Any] = expected
        return bool(function(value, **arguments))
    return _matches(expected, value, arguments)
