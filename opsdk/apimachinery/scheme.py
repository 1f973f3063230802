"""The Scheme: types and kinds, defaulting and conversion functions."""

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
    """A registry of types.

    A type is registered for one kind, and a kind for one type. Kinds given as text (``module:Class``) are imported
    when they are first asked for.

    >>> scheme = Scheme().add_lazily({GroupVersionKind("apps", "v1", "Deployment"): "opsdk.api.apps.v1:Deployment"})
    >>> scheme.type_for(GroupVersionKind("apps", "v1", "Deployment"))
    <class 'opsdk.api.apps.v1.Deployment'>
    """

    def __init__(self) -> None:
        self._types: dict[GroupVersionKind, type[TypedObject] | str] = {}
        self._defaults: dict[type[TypedObject], list[Callable[[Any], None]]] = {}
        self._conversions: dict[tuple[type[TypedObject], type[TypedObject]], Callable[[Any], Any]] = {}

    # -------------------------------------------------------------- registering
    def add(self, *kinds: type[TypedObject]) -> Scheme:
        """Register typed classes for their `gvk`; returns the scheme, so that calls can be chained.

        Registering the same class again is fine; another class for the same kind is a `SchemeError`.
        """
        for kind in kinds:
            if not kind.gvk.kind:
                raise SchemeError(f"{kind.__name__} has no `gvk`: set it in the class")
            registered = self._types.get(kind.gvk)
            if registered is not None and not _same(registered, kind):
                raise SchemeError(f"{kind.gvk} is registered as {_name(registered)} already, not as {_name(kind)}")
            self._types[kind.gvk] = kind
        return self

    def add_lazily(self, kinds: Mapping[GroupVersionKind, str]) -> Scheme:
        """Register kinds by ``module:Class``, without importing them."""
        for gvk, where in kinds.items():
            registered = self._types.setdefault(gvk, where)
            if registered != where and not _same(where, registered):
                raise SchemeError(f"{gvk} is registered as {_name(registered)} already, not as {where}")
        return self

    def add_defaulting(self, kind: type[T], function: Callable[[T], None]) -> None:
        """Have `default` call `function`, which changes the object in place; in order of registration."""
        self._defaults.setdefault(kind, []).append(function)

    def add_conversion(self, source: type[T], target: type[U], function: Callable[[T], U]) -> None:
        """Have `convert` use `function` from `source` to `target`; a second one for the same pair is refused."""
        if (source, target) in self._conversions:
            raise SchemeError(f"a conversion from {_name(source)} to {_name(target)} is registered already")
        self._conversions[source, target] = function

    def copy(self) -> Scheme:
        """An independent scheme with the same registrations."""
        clone = Scheme()
        clone._types = dict(self._types)
        clone._defaults = {k: list(v) for k, v in self._defaults.items()}
        clone._conversions = dict(self._conversions)
        return clone

    # -------------------------------------------------------------- asking
    def recognizes(self, gvk: GroupVersionKind) -> bool:
        """Whether a type is registered for the kind."""
        return gvk in self._types

    def kinds(self) -> Iterable[GroupVersionKind]:
        """Every registered kind."""
        return self._types.keys()

    def versions(self, kind: GroupKind) -> list[GroupVersion]:
        """The versions in which a kind is registered."""
        return [gvk.group_version for gvk in self._types if gvk.group_kind == kind]

    def type_for(self, gvk: GroupVersionKind) -> type[TypedObject]:
        """The class of a kind; `SchemeError` if none is registered."""
        registered = self._types.get(gvk)
        if registered is None:
            raise SchemeError(f"no type is registered for {gvk}: add its class with scheme.add(...)")
        if isinstance(registered, str):
            registered = self._types[gvk] = _imported(registered, gvk)
        return registered

    def gvk_for(self, kind: type[AnyObject] | AnyObject) -> GroupVersionKind:
        """The kind of a class or of an object; `SchemeError` if the class is not registered."""
        if isinstance(kind, type):
            gvk = kind.gvk
            if not isinstance(gvk, GroupVersionKind):
                raise SchemeError(f"{kind.__name__} stands for any kind: pass an object, or a token of a kind")
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
        """An empty object of a kind: typed where the type has no required fields, else unstructured."""
        if self.recognizes(gvk):
            kind = self.type_for(gvk)
            if not any(field.required for field in msgspec.structs.fields(kind)):
                return kind()
        return Unstructured(gvk.api_version, gvk.kind)

    # -------------------------------------------------------------- acting
    def default(self, obj: TypedObject) -> None:
        """Run the defaulting functions of the object's type on it, in place."""
        for function in self._defaults.get(type(obj), ()):
            function(obj)

    def convert(self, obj: TypedObject, target: type[U]) -> U:
        """`obj` as another version of its kind; `SchemeError` where no conversion is registered."""
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


def _imported(where: str, gvk: GroupVersionKind) -> type[TypedObject]:
    module, _, name = where.partition(":")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SchemeError(f"{gvk} is registered as {where}, which cannot be imported: {error}") from error
    if getattr(cls, "gvk", None) != gvk:
        raise SchemeError(f"{gvk} is registered as {where}, which is something else: {cls!r}")
    return cls  # type: ignore[no-any-return]


def _name(kind: type[Any] | str) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}:{kind.__qualname__}"


def _same(known: type[Any] | str, kind: type[Any] | str) -> bool:
    return known == kind if type(known) is type(kind) else _name(known) == _name(kind)


class SchemeBuilder:
    """Collects types at import time, to be added to schemes later.

    >>> builder = SchemeBuilder()
    >>> scheme = builder.add_to(Scheme())
    """

    def __init__(self) -> None:
        self._functions: list[Callable[[Scheme], None]] = []

    def register(self, kind: type[T]) -> type[T]:
        """A class decorator: the class is added by `add_to`."""

        def add(scheme: Scheme) -> None:
            scheme.add(kind)

        self._functions.append(add)
        return kind

    def add(self, function: Callable[[Scheme], None]) -> None:
        """Have `add_to` call `function`, e.g. to register defaulting."""
        self._functions.append(function)

    def add_to(self, scheme: Scheme) -> Scheme:
        """Do everything collected so far on `scheme`, and return it."""
        for function in self._functions:
            function(scheme)
        return scheme
