"""Show the field managers of an object in readable form. Pure."""

from __future__ import annotations

from opsdk.apiserver.fieldmanager.managed_fields import decode_entries
from opsdk.structured_merge.fieldpath import format_path
from opsdk.structured_merge.value import JsonObject


def owners(obj: JsonObject) -> dict[str, list[str]]:
    """Return the owned paths by field manager, in order; entries of one manager are merged.

    >>> entry = {"manager": "op", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    >>> owners({"metadata": {"managedFields": [entry]}})
    {'op': ['spec.replicas']}
    """
    owners_by_path: dict[str, set[str]] = {}
    for key, owner in decode_entries((obj.get("metadata") or {}).get("managedFields")).items():
        owners_by_path.setdefault(key.manager, set()).update(
            format_path(path).removeprefix(".") for path in owner.fields
        )
    return {manager: sorted(paths) for manager, paths in sorted(owners_by_path.items())}
