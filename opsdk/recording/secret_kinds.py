"""Which kinds have fields that hold secrets: those of the operator's classes, and of definitions that it has read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.plurals import plural_of
from opsdk.apimachinery.secret_fields import FieldPath, secret_fields
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["SecretKinds", "resource_of"]

log = SafeLogger(__name__)

Fields = frozenset[FieldPath]
Resource = tuple[str, str]
"""Group and plural."""
_NONE: Fields = frozenset()
_BUILT_IN = "opsdk.api."
_FIELDS: WeakKeyDictionary[type[Any], Fields] = WeakKeyDictionary()


class SecretKinds:
    """Finds the secret fields of a resource or of a kind. All versions of a kind have those of each other.

    A class counts from its import on, and a definition from the time at which it was read.
    """

    def __init__(self) -> None:
        self._resources: dict[Resource, Fields] = {}
        self._kinds: dict[tuple[str, str], Fields] = {}
        self._looked_at: set[Resource] = set()
        self._modules = 0
        self._classes: set[type[Any]] = set()

    def fields_at(self, resource: Resource) -> Fields:
        """Return the secret fields of a resource; empty if it has none."""
        # Looking at all classes takes 0.1 ms. A class is there before the first request for its objects.
        if resource not in self._looked_at or len(sys.modules) != self._modules:
            self._looked_at.add(resource)
            self._look_at_classes()
        return self._resources.get(resource, _NONE)

    def fields_of(self, obj: JsonObject) -> Fields:
        """Return the secret fields of an object that has its kind; empty if it has none."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return _NONE
        return self._kinds.get((api_version.rpartition("/")[0], kind), _NONE)

    def fields_in(self, body: bytes) -> Fields:
        """Return the secret fields of all kinds that a body may have: a patch in it does not say which one it is of."""
        if len(sys.modules) != self._modules:
            self._look_at_classes()
        present = (fields for (_, kind), fields in self._kinds.items() if b'"%b"' % kind.encode() in body)
        return frozenset().union(*present)

    def learn(self, definition: JsonObject) -> bool:
        """Take a CustomResourceDefinition, or what has some. Returns whether a kind is new among those with secrets."""
        before = dict(self._kinds)
        for spec in _definition_specs(definition):
            names = spec.get("names")
            group, plural, kind = (
                (spec.get("group"), names.get("plural"), names.get("kind"))
                if isinstance(names, dict)
                else (None, None, None)
            )
            if not (isinstance(group, str) and isinstance(plural, str) and isinstance(kind, str)):
                continue
            for version in spec.get("versions") or ():
                schema = version.get("schema") if isinstance(version, dict) else None
                if isinstance(schema, dict) and isinstance(schema := schema.get("openAPIV3Schema"), dict):
                    self._add(group, plural, kind, secret_fields(schema))
        return self._kinds != before

    def _look_at_classes(self) -> None:
        self._modules = len(sys.modules)
        for cls in _subclasses(TypedObject):
            if cls in self._classes or not cls.gvk.kind or cls.__module__.startswith(_BUILT_IN):
                continue
            self._classes.add(cls)
            self._add(cls.gvk.group, plural_of(cls), cls.gvk.kind, _fields_of_class(cls))

    def _add(self, group: str, plural: str, kind: str, fields: Fields) -> None:
        if fields:
            self._resources[group, plural] = self._resources.get((group, plural), _NONE) | fields
            self._kinds[group, kind] = self._kinds.get((group, kind), _NONE) | fields

    def __repr__(self) -> str:
        return f"<SecretKinds: {', '.join(sorted(kind for _, kind in self._kinds)) or 'none'}>"


def resource_of(target: str) -> Resource:
    """Return group and plural of a request's path; empty texts for another path.

    The address of a server behind a proxy may have a path of its own.

    >>> resource_of("/apis/example.com/v1/namespaces/shop/sites/a/status?force=true"), resource_of("/api/v1/secrets")
    (('example.com', 'sites'), ('', 'secrets'))
    """
    parts = target.partition("?")[0].strip("/").split("/")
    if "apis" in parts:
        start = parts.index("apis")
        group, rest = "".join(parts[start + 1 : start + 2]), parts[start + 3 :]
    elif "api" in parts:
        group, rest = "", parts[parts.index("api") + 2 :]
    else:
        return ("", "")
    if len(rest) > 2 and rest[0] == "namespaces" and (group or rest[2] not in ("status", "finalize")):
        rest = rest[2:]
    return (group, rest[0] if rest else "")


def _fields_of_class(cls: type[Any]) -> Fields:
    """Return the secret fields of a class. A process with several recordings makes its schema once."""
    fields = _FIELDS.get(cls)
    if fields is None:
        try:
            fields = secret_fields(schema_for(cls))
        except Exception as error:  # noqa: BLE001 - the class of an author may raise anything
            log.debug("%s has no schema, so its definition says which fields are secret: %s", cls.__name__, error)
            fields = _NONE
        _FIELDS[cls] = fields
    return fields


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _definition_specs(tree: Any) -> Iterator[JsonObject]:
    """Yield the specs of the definitions in a body: of an object, a list, a watch event, or a review."""
    if isinstance(tree, list):
        for item in tree:
            yield from _definition_specs(item)
    elif isinstance(tree, dict):
        spec = tree.get("spec")
        if isinstance(spec, dict) and "names" in spec and "versions" in spec:
            yield spec
        else:
            for name in ("items", "object", "request"):
                yield from _definition_specs(tree.get(name))
