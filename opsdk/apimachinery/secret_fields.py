"""The fields of custom resources that hold secrets: their schema has ``format: password``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from opsdk.apimachinery.secret_values import LAST_APPLIED
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["FieldPath", "below", "secret_fields", "without_secrets"]

FieldPath = tuple[str, ...]
"""Names of fields from the object down; ``*`` is each item of a list, and each value of a map."""
_EACH: Final = "*"
_COMBINED: Final = ("allOf", "anyOf", "oneOf")


def secret_fields(schema: JsonObject) -> frozenset[FieldPath]:
    """Return the fields of a kind that hold secrets, and the annotation of ``kubectl apply``, which has a copy.

    Args:
        schema: of the kind.

    >>> schema = {"properties": {"spec": {"properties": {"password": {"type": "string", "format": "password"}}}}}
    >>> sorted(secret_fields(schema))[1]
    ('spec', 'password')
    """
    paths = frozenset(_paths(schema))
    return paths | {("metadata", "annotations", LAST_APPLIED)} if paths else paths


def _paths(schema: Any) -> Iterator[FieldPath]:
    if not isinstance(schema, dict):
        return
    if schema.get("format") == "password":
        yield ()
    properties = schema.get("properties")
    steps = [*properties.items()] if isinstance(properties, dict) else []
    steps += [(_EACH, schema.get(word)) for word in ("items", "additionalProperties")]
    for name, inner in steps:
        yield from ((name, *path) for path in _paths(inner))
    for word in _COMBINED:
        for part in schema.get(word) or ():
            yield from _paths(part)


def below(paths: Iterable[FieldPath], name: str) -> frozenset[FieldPath]:
    """Return what is left of paths behind a field. A path that ends before it holds the whole field.

    >>> below({("spec", "password"), ("status",)}, "spec")
    frozenset({('password',)})
    """
    return frozenset(path[1:] for path in paths if not path or path[0] in (name, _EACH))


def without_secrets(tree: JsonValue, paths: frozenset[FieldPath], hide: Callable[[str], str]) -> JsonValue:
    """Return an object, or a part of one, with other texts in place of secrets.

    Args:
        tree: of the object.
        paths: of the secrets in it.
        hide: returns what stands for a text.
    """
    if not paths:
        return tree
    if isinstance(tree, str):
        return hide(tree) if () in paths else tree
    if isinstance(tree, dict):
        return {name: without_secrets(value, below(paths, name), hide) for name, value in tree.items()}
    if isinstance(tree, list):
        items = below(paths, _EACH)
        return [without_secrets(item, items, hide) for item in tree]
    return tree
