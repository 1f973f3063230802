"""Scheme: registry of kinds and their Python classes, defaulting and conversion functions.

Upstream: k8s.io/apimachinery/pkg/runtime/scheme.go (v1.36)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupKind, GroupVersion, GroupVersionKind
from opsdk.apimachinery.object import AnyObject, TypedObject, Unstructured, gvk_of
from opsdk.errors import SchemeError

T = TypeVar("T", bound=TypedObject)
U = TypeVar("U", bound=TypedObject)


class Scheme:
    """Maps each kind to one class, and each class to one kind.

    A kind that is registered as a string (``module:Class``) is imported on first use.

    >>> scheme = Scheme().add_lazily({GroupVersionKind("apps", "v1", "Deployment"): "opsdk.api.apps.v1:Deployment"})
    >>> scheme.type_for(GroupVersionKind("apps", "v1", "Deployment"))
    <class 'opsdk.api.apps.v1.Deployment'>
    """

    def __init__(self) -> None:
        self._types: dict[GroupVersionKind, type[TypedObject] | str] = {}
        self._defaults: dict[type[TypedObject], list[Callable[[Any], None]]] = {}
        self._conversions: dict[tuple[type[TypedObject], type[TypedObject]], Callable[[Any], Any]] = {}

    # -------------------------------------------------------------- registering
    def add(self, *kinds: type[Any]) -> Scheme:
        """Register classes for their `gvk`, and return the scheme.

        The same class may be registered again. Raises `SchemeError` for a second class of the same kind, and for a kind
        without a version.
        """
        for kind in kinds:
            if not kind.gvk.kind:
                raise SchemeError(f"{kind.__name__} has no `gvk`: set it in the class")
            _check_version(kind.gvk)
            registered = self._types.get(kind.gvk)
            if registered is not None and not _same(registered, kind):
                raise SchemeError(f"{kind.gvk} is already registered as {_name(registered)}, not as {_name(kind)}")
            self._types[kind.gvk] = kind
        return self

    def add_lazily(self, kinds: Mapping[GroupVersionKind, str]) -> Scheme:
        """Register kinds by ``module:Class`` without importing them, and return the scheme."""
        for gvk, where in kinds.items():
            _check_version(gvk)
            registered = self._types.setdefault(gvk, where)
            if registered != where and not _same(where, registered):
                raise SchemeError(f"{gvk} is already registered as {_name(registered)}, not as {where}")
        return self

    def add_defaulting(self, kind: type[T], function: Callable[[T], None]) -> None:
        """Add a function that `default` calls, in order of registration. It changes the object in place."""
        self._defaults.setdefault(kind, []).append(function)

    def add_conversion(self, source: type[T], target: type[U], function: Callable[[T], U]) -> None:
        """Add the function that `convert` uses from `source` to `target`. Raises `SchemeError` if there is one."""
        if (source, target) in self._conversions:
            raise SchemeError(f"a conversion from {_name(source)} to {_name(target)} is already registered")
        self._conversions[source, target] = function

    def copy(self) -> Scheme:
        """Return an independent scheme with the same registrations."""
        clone = Scheme()
        clone._types = dict(self._types)
        clone._defaults = {k: list(v) for k, v in self._defaults.items()}
        clone._conversions = dict(self._conversions)
        return clone

    # -------------------------------------------------------------- lookup
    def recognizes(self, gvk: GroupVersionKind) -> bool:
        """Whether a class is registered for the kind."""
        return gvk in self._types

    def kinds(self) -> Iterable[GroupVersionKind]:
        """Return every registered kind."""
        return self._types.keys()

    def versions(self, kind: GroupKind) -> list[GroupVersion]:
        """Return the registered versions of a kind."""
        return [gvk.group_version for gvk in self._types if gvk.group_kind == kind]

    def type_for(self, gvk: GroupVersionKind) -> type[TypedObject]:
        """Return the class of a kind. Raises `SchemeError` if none is registered or its import fails."""
        registered = self._types.get(gvk)
        if registered is None:
            raise SchemeError(f"no type is registered for {gvk}: add its class with scheme.add(...)")
        if not isinstance(registered, str):
            return registered
        module, _, name = registered.partition(":")
        try:
            # 300 kinds are registered; a program uses some of them.
            cls: type[TypedObject] = getattr(importlib.import_module(module), name)  # noqa: TID251
        except (ImportError, AttributeError) as error:
            raise SchemeError(f"{gvk} is registered as {registered}, which cannot be imported: {error}") from error
        if getattr(cls, "gvk", None) != gvk:
            raise SchemeError(f"{gvk} is registered as {registered}, which is something else: {cls!r}")
        self._types[gvk] = cls
        return cls

    def gvk_for(self, kind: type[AnyObject] | AnyObject) -> GroupVersionKind:
        """Return the kind of a class or an object. Raises `SchemeError` if the class is not registered."""
        if isinstance(kind, type):
            gvk = kind.gvk
            if not isinstance(gvk, GroupVersionKind):
                raise SchemeError(f"{kind.__name__} stands for any kind: pass an object, or a class of one kind")
        else:
            gvk = gvk_of(kind)
            if not isinstance(kind, TypedObject):
                return gvk
        cls = kind if isinstance(kind, type) else type(kind)
        registered = self._types.get(gvk)
        if registered is None or not _same(registered, cls):
            raise SchemeError(f"{cls.__name__} is not registered for {gvk}: add it with scheme.add({cls.__name__})")
        return gvk

    def new(self, gvk: GroupVersionKind) -> AnyObject:
        """Return an empty object of a kind: typed if the class has no required fields, else unstructured."""
        if self.recognizes(gvk):
            kind = self.type_for(gvk)
            if not any(field.required for field in msgspec.structs.fields(kind)):
                return kind()
        return Unstructured(gvk.api_version, gvk.kind)

    # -------------------------------------------------------------- defaulting and conversion
    def default(self, obj: TypedObject) -> None:
        """Run the defaulting functions of the object's class, in place."""
        for function in self._defaults.get(type(obj), ()):
            function(obj)

    def convert(self, obj: TypedObject, target: type[U]) -> U:
        """Return `obj` in another version of its kind. Raises `SchemeError` if no conversion is registered."""
        if isinstance(obj, target):
            return obj
        function = self._conversions.get((type(obj), target))
        if function is None:
            raise SchemeError(f"no conversion from {_name(type(obj))} to {_name(target)}: register one")
        converted = function(obj)
        if not isinstance(converted, target):
            raise SchemeError(f"the conversion to {_name(target)} returned a {type(converted).__name__}")
        return converted

    def __repr__(self) -> str:
        return f"<Scheme of {len(self._types)} kinds>"


def _check_version(gvk: GroupVersionKind) -> None:
    if not gvk.version:
        raise SchemeError(f"{gvk.group_kind} has no version: a kind is registered for one, such as v1")


def _name(kind: type[Any] | str) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}:{kind.__qualname__}"


def _same(known: type[Any] | str, kind: type[Any] | str) -> bool:
    return known == kind if type(known) is type(kind) else _name(known) == _name(kind)
