"""The base of every typed value: snake_case attributes, camelCase on the wire."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import MicroTime
from opsdk.structured_merge.value import JsonObject


class Model(msgspec.Struct, rename="camel", omit_defaults=True):
    """Derive the parts of your own kinds from this.

    Attributes are sent in camelCase; name a field with ``msgspec.field(name="clusterIP")`` where that is not
    enough. An attribute that equals its default is not sent.

    >>> class WebsiteSpec(Model):
    ...     image: str
    ...     max_replicas: int = 1
    >>> to_builtins(WebsiteSpec(image="nginx", max_replicas=3))
    {'image': 'nginx', 'maxReplicas': 3}
    """


def encode_hook(value: Any) -> Any:
    """The wire form of our own scalar types, for msgspec."""
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, MicroTime):
        return value.wire()
    raise TypeError(f"{type(value).__name__} has no wire form")


def decode_hook(wanted: type, value: Any) -> Any:
    """Our own scalar types from their wire form, for msgspec."""
    if wanted is Quantity:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return Quantity(value)
        raise ValueError(f"expected a quantity, got {type(value).__name__}")
    if wanted is MicroTime:
        if isinstance(value, str):
            return MicroTime.parse(value)
        raise ValueError(f"expected a time, got {type(value).__name__}")
    raise TypeError(f"no wire form of {wanted.__name__} is known")


def to_builtins(value: Any) -> Any:
    """`value` as dicts, lists and scalars, as it would be sent."""
    tree = msgspec.to_builtins(value, enc_hook=encode_hook)
    if isinstance(value, msgspec.Struct):
        _drop_empty(value, tree)
    return tree


@lru_cache(maxsize=4096)
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """Attribute, wire name, and whether the field is always there in Python but not sent while empty."""
    return tuple(
        (f.name, f.encode_name, f.default_factory is not msgspec.NODEFAULT and f.default_factory not in (list, dict))
        for f in msgspec.structs.fields(kind)
    )


def _drop_empty(value: msgspec.Struct, tree: JsonObject) -> None:
    """Leave out parts that exist only because Python makes them, so that they are neither sent nor owned."""
    for attribute, wire, always_there in _fields(type(value)):
        if wire not in tree:
            continue
        part = getattr(value, attribute)
        if isinstance(part, msgspec.Struct):
            _drop_empty(part, tree[wire])
            if always_there and not tree[wire]:
                del tree[wire]
        elif isinstance(part, list) and part and isinstance(part[0], msgspec.Struct):
            for item, subtree in zip(part, tree[wire], strict=True):
                _drop_empty(item, subtree)
        elif isinstance(part, dict):
            for key, item in part.items():
                if isinstance(item, msgspec.Struct):
                    _drop_empty(item, tree[wire][key])
