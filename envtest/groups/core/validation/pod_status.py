"""Validation of the pod status.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import ip_address, read_address
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

_OWN_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})


def validate_pod_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update of the status."""
    status, before, spec = obj.get("status") or {}, old.get("status") or {}, old.get("spec") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if kind not in _OWN_CONDITIONS:
            # Upstream reports these conditions under the path ``metadata``.
            yield from validation.each(qualified_name(kind), kind, f"metadata.conditions[{index}].Type")
    node = status.get("nominatedNodeName")
    if node and node != before.get("nominatedNodeName"):
        yield from validation.subdomain(node, "status.nominatedNodeName")
    if before.get("qosClass", "") != status.get("qosClass", ""):
        yield api_errors.invalid_value("status.qosClass", status.get("qosClass", ""), "field is immutable")
    # A terminated container must not run again, unless its restart policy allows it.
    policy = spec.get("restartPolicy", "")
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    for key, always, stays in (
        ("containerStatuses", policy, set[str]()),
        ("initContainerStatuses", policy, sidecars),
        ("ephemeralContainerStatuses", "Never", set[str]()),
    ):
        if always != "Always":
            yield from _transitions(status.get(key), before.get(key), f"status.{key}", always, stays)
    yield from _claims(status.get("resourceClaimStatuses") or (), spec, "status.resourceClaimStatuses")
    yield from _addresses([part.get("ip", "") for part in status.get("podIPs") or ()], "status.podIPs")
    addresses = [part.get("ip", "") for part in status.get("hostIPs") or ()]
    if addresses and addresses[0] != status.get("hostIP", ""):
        yield api_errors.invalid_value("status.hostIPs[0].ip", addresses[0], "must be equal to `hostIP`")
    yield from _addresses(addresses, "status.hostIPs")


# ------------------------------------------------------------------ containers


def _transitions(now: JsonValue, before: JsonValue, path: str, policy: str, stays: set[str]) -> Iterator[Cause]:
    statuses = {s.get("name"): s for s in now or ()}
    for index, status in enumerate(before or ()):
        ended = (status.get("state") or {}).get("terminated")
        new = statuses.get(status.get("name"))
        if ended is None or new is None or status.get("name") in stays:
            continue
        if ended.get("exitCode", 0) != 0 and policy == "OnFailure":
            continue
        if (new.get("state") or {}).get("terminated") is None:
            text = "may not be transitioned to non-terminated state"
            yield api_errors.not_allowed(f"{path}[{index}].state", text)


def _claims(statuses: Sequence[JsonObject], spec: JsonObject, path: str) -> Iterator[Cause]:
    names = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    unique: set[str] = set()
    for index, status in enumerate(statuses):
        item_path, name = f"{path}[{index}]", status.get("name", "")
        if name not in names:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield api_errors.invalid_value(f"{item_path}.name", name, text)
        if name in unique:
            yield api_errors.duplicate(f"{item_path}.name", name)
        unique.add(name)
        if status.get("resourceClaimName") is not None:
            yield from validation.subdomain(status["resourceClaimName"], f"{item_path}.resourceClaimName")


# ------------------------------------------------------------------ addresses


def _addresses(addresses: Sequence[str], path: str) -> Iterator[Cause]:
    """Validate IPs of a pod or node: valid, at most one of each family, no duplicates."""
    wrong = False
    for index, address in enumerate(addresses):
        for cause in ip_address(address, f"{path}[{index}]"):
            wrong = True
            yield cause
    if len(addresses) < 2 or wrong:
        return
    families = [read.version for read in map(read_address, addresses) if isinstance(read, _KINDS)]
    if len(set(families)) < len(addresses):
        text = "may specify no more than one IP for each IP family"
        yield api_errors.invalid_value(path, [{"IP": address} for address in addresses], text)
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield api_errors.duplicate(f"{path}[{index}]", {"IP": address})


_KINDS: Final = (ipaddress.IPv4Address, ipaddress.IPv6Address)
