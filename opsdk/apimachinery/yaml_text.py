"""Objects as YAML text, for files and terminals."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apimachinery.object import AnyObject, to_dict
from opsdk.apimachinery.serializer.yaml_writer import write_documents
from opsdk.structured_merge.value import JsonObject


def to_yaml(objects: Sequence[AnyObject | JsonObject]) -> str:
    """Return objects as YAML documents with sorted keys, as kubectl prints them. Equal objects have equal bytes."""
    return write_documents(obj if isinstance(obj, dict) else to_dict(obj) for obj in objects)
