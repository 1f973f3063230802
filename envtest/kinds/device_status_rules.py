"""What schedulers and drivers say of claims for devices: what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.kinds import rules
from envtest.kinds.affinity_rules import validate_node_selector
from envtest.kinds.device_rules import (
    all_of,
    configuration,
    driver_name,
    label_name,
    pool_name,
    request_names,
    request_reference,
    request_references,
)
from envtest.kinds.status_rules import validate_conditions
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_MOST_RESERVED: Final = 256
_MOST_RESULTS: Final = 32
_MOST_CONFIGURATIONS: Final = 64
_MOST_CONDITIONS: Final = 8
_SOURCES: Final = ("FromClaim", "FromClass")


def validate_claim_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Which devices there are for a claim, and for whom."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    known = set(request_names(((obj.get("spec") or {}).get("devices") or {}).get("requests") or []))
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or []
    yield from all_of(reserved, _MOST_RESERVED, _consumer, "status.reservedFor", "uid")
    yield from _devices(status.get("devices") or (), allocation or {})
    if reserved:
        yield from _reserved(reserved, before.get("reservedFor") or [], allocation, deleted=_leaving(obj))
    if allocation is None:
        return
    if before.get("allocation") is None:
        yield from _allocation(allocation, "status.allocation", known)
    elif allocation != before["allocation"]:
        yield api_errors.invalid_value("status.allocation", allocation, "field is immutable")


def _leaving(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _reserved(
    reserved: Sequence[JsonObject], before: Sequence[JsonObject], allocation: JsonObject | None, *, deleted: bool
) -> Iterator[Cause]:
    if allocation is None:
        yield api_errors.not_allowed("status.reservedFor", "may not be specified when `allocated` is not set")
    elif deleted and any(consumer not in before for consumer in reserved):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield api_errors.not_allowed("status.reservedFor", text)


def _consumer(consumer: JsonObject, path: str) -> Iterator[Cause]:
    for key in ("resource", "name", "uid"):
        yield from rules.needed(consumer.get(key), f"{path}.{key}")


def _allocation(allocation: JsonObject, path: str, known: set[str]) -> Iterator[Cause]:
    devices, at = allocation.get("devices") or {}, f"{path}.devices"
    results = devices.get("results")
    yield from all_of(results, _MOST_RESULTS, lambda r, p: _result(r, p, known), f"{at}.results")
    found = devices.get("config")
    yield from all_of(found, _MOST_CONFIGURATIONS, lambda c, p: _configuration(c, p, known), f"{at}.config")
    if allocation.get("nodeSelector") is not None:
        yield from validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")


def _result(result: JsonObject, path: str, known: set[str]) -> Iterator[Cause]:
    yield from request_reference(result.get("request", ""), known, f"{path}.request")
    yield from _place(result, path)


def _place(found: JsonObject, path: str) -> Iterator[Cause]:
    """Driver, pool, device."""
    yield from driver_name(found.get("driver", ""), f"{path}.driver")
    yield from pool_name(found.get("pool", ""), f"{path}.pool")
    yield from label_name(found.get("device", ""), f"{path}.device")


def _configuration(found: JsonObject, path: str, known: set[str]) -> Iterator[Cause]:
    yield from rules.one_of(found.get("source"), _SOURCES, f"{path}.source")
    yield from request_references(found.get("requests"), known, f"{path}.requests")
    yield from configuration(found, path)


def _devices(devices: Sequence[JsonObject], allocation: JsonObject) -> Iterator[Cause]:
    keys = ("driver", "pool", "device", "shareID")
    results = (allocation.get("devices") or {}).get("results") or ()
    given = {tuple(result.get(key) or "" for key in keys) for result in results}
    seen: set[tuple[str, ...]] = set()
    for index, device in enumerate(devices):
        at, key = f"status.devices[{index}]", tuple(device.get(key) or "" for key in keys)
        yield from _place(device, at)
        shown = {"Driver": key[0], "Pool": key[1], "Device": key[2], "ShareID": key[3]}
        if key not in given:
            yield api_errors.invalid_value(at, shown, "must be an allocated device in the claim")
        conditions = device.get("conditions") or ()
        if len(conditions) > _MOST_CONDITIONS:
            yield api_errors.too_many(f"{at}.conditions", len(conditions), _MOST_CONDITIONS)
        yield from validate_conditions(conditions, f"{at}.conditions")
        if key in seen:
            yield api_errors.duplicate(f"{at}.deviceID", shown)
        seen.add(key)
