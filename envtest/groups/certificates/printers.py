"""Columns of the group certificates.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envtest.groups.common.printing import (
    NOTHING,
    KindPrinter,
    age,
    human_duration,
    kind_printers,
    name_of,
    spec_of,
    status_of,
)
from opsdk.structured_merge.value import JsonObject, JsonValue


def _request_states(obj: JsonObject) -> Iterator[str]:
    types = {c.get("type") for c in status_of(obj).get("conditions") or ()}
    yield "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        yield "Failed"
    if status_of(obj).get("certificate"):
        yield "Issued"


def _signing_request(obj: JsonObject, now: float) -> list[JsonValue]:
    spec = spec_of(obj)
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        spec.get("signerName") or NOTHING,
        spec.get("username", ""),
        NOTHING if seconds is None else human_duration(seconds),
        ",".join(_request_states(obj)),
    ]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "certificates.k8s.io/certificatesigningrequests": _signing_request,
        "certificates.k8s.io/clustertrustbundles": lambda obj, _: [name_of(obj), spec_of(obj).get("signerName", "")],
    }
)
"""By ``group/resource``."""
