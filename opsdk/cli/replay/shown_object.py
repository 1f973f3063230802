"""An object of a recording as text."""

from __future__ import annotations

from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.structured_merge.value import JsonObject

__all__ = ["as_text"]


def as_text(obj: JsonObject) -> str:
    """Return an object as YAML without ``managedFields``, as ``kubectl get --output yaml`` prints it.

    >>> print(as_text({"kind": "Site", "metadata": {"name": "a", "managedFields": []}}), end="")
    kind: Site
    metadata:
      name: a
    """
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return write_yaml({**obj, "metadata": metadata}, sort_keys=False)
