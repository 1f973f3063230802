"""The error of an object that does not decode: what the schema of its class finds wrong in it.

Only refused objects need it, so `opsdk.webhook.handlers` imports it with the first one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import TypedObject
from opsdk.apiserver.api_errors import invalid
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.errors import Cause, DecodeError, InvalidError, OpsdkError
from opsdk.structured_merge.value import JsonObject

__all__ = ["invalid_object"]


def invalid_object(tree: JsonObject, kind: Kind[Any], error: DecodeError) -> InvalidError | None:
    """Return the error for the client; None for JSON of another shape than an object of `kind`.

    Args:
        tree: the object.
        kind: its class.
        error: why it does not decode.
    """
    causes = _causes(tree, kind, error)
    if not causes:
        return None
    name = str((tree.get("metadata") or {}).get("name") or "")
    # With kind and name in the details: kubectl prints "The request is invalid" without them.
    return invalid(kind.name, kind.gvk.group, name, causes)


def _causes(tree: JsonObject, kind: Kind[Any], error: DecodeError) -> list[Cause]:
    """Return what the server's schema finds wrong in an object that does not decode.

    If the schema finds nothing, the class refuses more than its schema: then the error of the class. Empty for JSON of
    another shape than an object of the kind.
    """
    reason = error.__cause__
    text, _, path = str(reason).rpartition(" - at `$.")
    if not text or not isinstance(reason, msgspec.ValidationError):
        return []
    schema = _schema_of(kind.representation) if issubclass(kind.representation, TypedObject) else None
    if schema is not None and (problems := schema.validate(tree)):
        return [problem.cause for problem in problems]
    return [] if ", got `" in text else [Cause("FieldValueInvalid", f"Invalid value: {text}", path.rstrip("`"))]


@lru_cache(maxsize=64)
def _schema_of(form: type[TypedObject]) -> StructuralSchema | None:
    """Return the schema of a class; None for a class without one, such as a built-in kind's."""
    try:
        return StructuralSchema(schema_for(form))
    except OpsdkError:
        return None
