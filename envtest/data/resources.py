"""The served resources and subresources, with their verbs and names."""

from __future__ import annotations

import json
from functools import cache

import msgspec

from envtest.data.table import read_table
from envtest.data.versions import DEFAULT
from opsdk.apiserver.resources import ResourceInfo
from opsdk.structured_merge.value import JsonObject


class ServedResourceRow(msgspec.Struct, frozen=True):
    """One row of the table of served resources.

    Attributes:
        info: the resource.
        verbs: what can be done with it.
        kubernetes: the version of Kubernetes that serves it.
    """

    info: ResourceInfo
    verbs: tuple[str, ...]
    kubernetes: str = DEFAULT


@cache
def rows(version: str = DEFAULT) -> tuple[ServedResourceRow, ...]:
    """Return every resource and subresource of a version of Kubernetes, in the order of discovery."""
    return tuple(_row(json.loads(line), version) for line in read_table("resources", version).splitlines())


_DEPRECATIONS = {
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
}

_RAW_FIELDS = {("apps", "controllerrevisions"): "data"}
"""Fields whose bytes are kept as the client sent them."""


def _row(raw: JsonObject, version: str) -> ServedResourceRow:
    """Return the row of a served resource."""
    info = ResourceInfo(
        group=raw["group"],
        version=raw["version"],
        resource=raw["resource"],
        kind=raw["kind"],
        namespaced=raw["namespaced"],
        singular=raw.get("singularResource", ""),
        list_kind=f"{raw['kind']}List",
        short_names=tuple(raw.get("shortNames", ())),
        categories=tuple(raw.get("categories", ())),
        subresource=raw.get("subresource", ""),
        kind_group=raw.get("kindGroup"),
        kind_version=raw.get("kindVersion"),
        deprecation=_DEPRECATIONS.get((raw["group"], raw["resource"]), ""),
        raw_field=_RAW_FIELDS.get((raw["group"], raw["resource"]), ""),
    )
    return ServedResourceRow(info, tuple(raw["verbs"]), version)
