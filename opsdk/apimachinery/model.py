"""Base class of all typed values: snake_case attributes in Python, camelCase in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import msgspec

from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.pydantic_models import encode_pydantic, is_pydantic
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.structured_merge.value import JsonObject, JsonValue

HIDDEN = "<hidden>"
"""Replaces a secret in ``repr``."""

# The annotation of kubectl apply holds a copy of the whole object, including the data of Secrets.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields that hold secrets, by class name in k8s.io/api.
_HIDDEN = {
    "Secret": ("data", "string_data"),
    "TokenRequestStatus": ("token",),
    "TokenReviewSpec": ("token",),
}


class Model(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base class for the parts of your own kinds.

    JSON names are the attribute names in camelCase; override one with ``msgspec.field(name="clusterIP")``. An attribute
    that equals its default is not sent. Attributes after one with a default need defaults too, unless the class has
    ``kw_only=True``, as in ``class WebsiteSpec(Model, kw_only=True)``.

    >>> class WebsiteSpec(Model):
    ...     image: str
    ...     max_replicas: int = 1
    >>> to_builtins(WebsiteSpec(image="nginx", max_replicas=3))
    {'image': 'nginx', 'maxReplicas': 3}

    ``repr`` shows the attributes that differ from their defaults, and hides secrets.

    Attributes:
        always_sent: attributes that are sent although they equal their defaults, because the API requires them.
    """

    always_sent: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        hidden = _HIDDEN.get(type(self).__name__, ())
        defaults = {f.name: f.default for f in msgspec.structs.fields(type(self))}
        shown = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value == defaults[name] or value in ({}, []):
                continue
            if isinstance(value, dict) and _LAST_APPLIED in value:
                value = {**value, _LAST_APPLIED: HIDDEN}
            shown.append(f"{name}={HIDDEN if name in hidden else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def encode_hook(value: Any) -> Any:
    """Encode Quantity, MicroTime, Duration and pydantic models, for msgspec."""
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, MicroTime | Duration):
        return value.wire()
    if is_pydantic(type(value)):
        return encode_pydantic(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_hook(target: type, value: Any) -> Any:
    """Decode Quantity, MicroTime, Duration and pydantic models, for msgspec."""
    if target is Quantity:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return Quantity(value)
        raise ValueError(f"expected a quantity, got {type(value).__name__}")
    if target is MicroTime:
        if isinstance(value, str):
            return MicroTime.parse(value)
        raise ValueError(f"expected a time, got {type(value).__name__}")
    if target is Duration:
        if isinstance(value, str):
            return Duration.parse(value)
        raise ValueError(f"expected a duration, got {type(value).__name__}")
    if is_pydantic(target):
        return target.model_validate(value)  # type: ignore[attr-defined] # see `is_pydantic`
    raise TypeError(f"{target.__name__} has no JSON form")


def to_builtins(value: Any) -> Any:
    """Return `value` as dicts, lists and scalars, as it is sent."""
    tree = msgspec.to_builtins(value, enc_hook=encode_hook)
    if isinstance(value, msgspec.Struct):
        _drop_empty(value, tree)
    return tree


class _Fields(NamedTuple):
    """The field names of a class that encoding needs.

    Attributes:
        attributes: attribute by JSON name.
        created: JSON names of fields that always have a value in Python, but are not sent while they are empty.
    """

    attributes: Mapping[str, str]
    created: frozenset[str]


@lru_cache(maxsize=4096)
def _fields(cls: type[msgspec.Struct]) -> _Fields:
    # Not `msgspec.structs.fields`, which resolves all annotations: 1 ms and more for each class.
    names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
    optional = cls.__struct_encode_fields__[len(names) - len(cls.__struct_defaults__) :]
    created = (
        wire
        for wire, default in zip(optional, cls.__struct_defaults__, strict=True)
        if getattr(default, "factory", list) not in (list, dict)
    )
    return _Fields(names, frozenset(created))


def _drop_empty(value: msgspec.Struct, tree: JsonObject) -> None:
    """Remove empty parts that only exist because Python creates them, so that they are neither sent nor owned."""
    attributes, created = _fields(type(value))
    empty = []
    for wire, subtree in tree.items():
        if type(subtree) in _BRANCHES:
            for part, branch in _nested(getattr(value, attributes[wire]), subtree):
                _drop_empty(part, branch)
            if not subtree and wire in created:
                empty.append(wire)
    for wire in empty:
        del tree[wire]
    for attribute in getattr(value, "always_sent", ()):
        position = value.__struct_fields__.index(attribute)
        tree.setdefault(value.__struct_encode_fields__[position], getattr(value, attribute))


_BRANCHES = frozenset({dict, list})


def _nested(value: Any, tree: JsonValue) -> Iterable[tuple[msgspec.Struct, JsonObject]]:
    """Return the structs directly below an attribute, each with its tree."""
    if isinstance(value, msgspec.Struct):
        return ((value, tree),)
    if isinstance(value, dict):
        # The key of an item without a struct may be another type than str.
        items = [(value.get(key), item) for key, item in tree.items() if type(item) is dict]
    elif isinstance(value, list) and tree and type(tree[0]) is dict:
        items = list(zip(value, tree, strict=True))
    else:
        return ()
    return [(part, item) for part, item in items if isinstance(part, msgspec.Struct)]
