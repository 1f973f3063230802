"""Base class of all typed values: snake_case attributes in Python, camelCase in JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.pydantic_models import encode_pydantic, is_pydantic
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.structured_merge.value import JsonObject

HIDDEN = "<hidden>"
"""Stands for a secret in ``repr``."""

# The annotation of kubectl apply holds a copy of the whole object, of secrets too.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields that hold secrets, by the names of their classes in k8s.io/api.
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

    ``repr`` shows what differs from the defaults, and hides secrets.

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


@lru_cache(maxsize=4096)
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """Return attribute, JSON name, and whether the field always has a value in Python but is not sent while empty."""
    return tuple(
        (f.name, f.encode_name, f.default_factory is not msgspec.NODEFAULT and f.default_factory not in (list, dict))
        for f in msgspec.structs.fields(kind)
    )


def _drop_empty(value: msgspec.Struct, tree: JsonObject) -> None:
    """Remove empty parts that only exist because Python creates them, so that they are neither sent nor owned."""
    for attribute, wire, always_there in _fields(type(value)):
        part = getattr(value, attribute) if wire in tree else None
        if isinstance(part, msgspec.Struct):
            _drop_empty(part, tree[wire])
        elif isinstance(part, list) and part and isinstance(part[0], msgspec.Struct):
            for item, subtree in zip(part, tree[wire], strict=True):
                _drop_empty(item, subtree)
        elif isinstance(part, dict):
            for key, item in part.items():
                if isinstance(item, msgspec.Struct):
                    _drop_empty(item, tree[wire][key])
        if always_there and tree.get(wire) == {}:
            del tree[wire]
    for attribute in getattr(value, "always_sent", ()):
        position = value.__struct_fields__.index(attribute)
        tree.setdefault(value.__struct_encode_fields__[position], getattr(value, attribute))
