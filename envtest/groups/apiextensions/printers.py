"""Columns of the group apiextensions.k8s.io, which Kubernetes has from 1.37 on.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor (v1.37)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, condition_of, kind_printers, meta_of, name_of, spec_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _definition(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    names = spec.get("names") or {}
    versions = (each for each in spec.get("versions") or () if each.get("served"))
    return [
        name_of(obj),
        spec.get("scope", ""),
        ",".join(sorted(f"{each['name']}{'(storage)' if each.get('storage') else ''}" for each in versions)),
        meta_of(obj).get("creationTimestamp"),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        (condition_of(obj, "Established") or {}).get("status") == "True",
    ]


PRINTERS: Mapping[str, KindPrinter] = kind_printers({"apiextensions.k8s.io/customresourcedefinitions": _definition})
"""By ``group/resource``."""
