"""Maps managedFields between an object and its Scale.

A Scale shows only the replicas of an object. A write to the Scale changes the Scale's managedFields, and this module
copies the ownership of the replicas to the object. The entries of the object keep their times.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from opsdk.apiserver.fieldmanager.managed_fields import Managed, ManagedFieldsEntry, decode_entries, encode_entries
from opsdk.structured_merge.fieldpath import FieldSet, Path
from opsdk.structured_merge.value import JsonObject, JsonValue

SCALE_VERSION: Final = "autoscaling/v1"
"""The version of Scale objects."""

_REPLICAS: Final[Path] = ("f:spec", "f:replicas")
_REPLICAS_IN_SCALE: Final = FieldSet.of(_REPLICAS)


def owners_of_scale(entries: Iterable[JsonValue] | None, replicas: Mapping[str, Path]) -> list[JsonObject]:
    """Return the ``managedFields`` of the Scale of an object with these `entries`.

    `replicas` is the path of the replicas field in the object, by apiVersion.
    """
    managed: Managed = {}
    for key, owner in decode_entries(entries).items():
        path = replicas.get(owner.api_version)
        if path is not None and owner.fields.contains(path):
            managed[key] = ManagedFieldsEntry(fields=_REPLICAS_IN_SCALE, api_version=SCALE_VERSION, time=owner.time)
    return encode_entries(managed)


def owners_of_scaled(
    entries: Iterable[JsonValue] | None,
    scale_entries: Iterable[JsonValue] | None,
    replicas: Mapping[str, Path],
    api_version: str,
) -> list[JsonObject]:
    """Return the object's ``managedFields`` after a write to its Scale; `api_version` is the object's."""
    scaled = {key: owner for key, owner in decode_entries(scale_entries).items() if owner.fields.contains(_REPLICAS)}
    result: Managed = {}
    for key, owner in decode_entries(entries).items():
        path = replicas.get(owner.api_version)
        if path is None:
            continue  # the version is not served any more
        if owner.fields.contains(path) and key not in scaled:
            rest = owner.fields.difference(FieldSet.of(path))
            if rest:
                result[key] = owner.with_fields(rest)
            continue
        result[key] = owner
        if owner.fields.contains(path):
            del scaled[key]
    for key in scaled:
        before = result[key].fields if key in result else FieldSet()
        time = result[key].time if key in result else ""
        fields = before.union(FieldSet.of(replicas[api_version]))
        result[key] = ManagedFieldsEntry(fields=fields, api_version=api_version, time=time)
    return encode_entries(result)
