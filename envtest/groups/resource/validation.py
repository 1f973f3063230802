"""Validation of device classes, resource claims and resource slices (DRA).

Upstream: pkg/apis/resource/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from envtest.codec.go_structs import NullablePart, Shape, as_go
from envtest.groups.common import validation
from envtest.groups.common.conditions import validate_conditions
from envtest.groups.core.resource_names import is_extended
from envtest.groups.core.validation.affinity import validate_node_selector
from envtest.groups.resource.device_selectors import selector_problem
from opsdk.apimachinery.validation import dns_subdomain, label_value, qualified_name
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

_MOST: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MOST_DEVICES: Final = 128
_MOST_TAINTS: Final = 16
_MOST_POOL: Final = 253
_MOST_EXPRESSION: Final = 10 * 1024
_MOST_PARAMETERS: Final = 10 * 1024
_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_MODES: Final = ("All", "ExactCount")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("int", "bool", "string", "version")
_TOLERATION: Final[Shape] = {"Key": "", "Operator": "", "Value": "", "Effect": "", "TolerationSeconds": None}
_WISH: Final[Shape] = {
    "DeviceClassName": "",
    "Selectors": NullablePart({"CEL": NullablePart({"Expression": ""})}),
    "AllocationMode": "",
    "Count": 0,
}
_AMOUNTS: Final = NullablePart({"Requests": None})
_ALTERNATIVE: Final[Shape] = {"Name": "", **_WISH, "Tolerations": NullablePart(_TOLERATION), "Capacity": _AMOUNTS}
_EXACT: Final[Shape] = {**_WISH, "AdminAccess": None, "Tolerations": NullablePart(_TOLERATION), "Capacity": _AMOUNTS}
_CLAIM: Final[Shape] = {
    "Devices": {
        "Requests": NullablePart(
            {"Name": "", "Exactly": NullablePart(_EXACT), "FirstAvailable": NullablePart(_ALTERNATIVE)}
        ),
        "Constraints": NullablePart({"Requests": None, "MatchAttribute": None, "DistinctAttribute": None}),
        "Config": NullablePart({"Requests": None, "Opaque": NullablePart({"Driver": "", "Parameters": None})}),
    }
}
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
Check = Callable[[JsonObject, str], Iterator[Cause]]


def all_of(entries: Sequence[JsonValue] | None, most: int, check: Check, path: str, key: str = "") -> Iterator[Cause]:
    """Validate each element, and their number; with `key`, its values are unique."""
    items = entries or ()
    keys: set[JsonValue] = set()
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")
        name = item.get(key) if key else None
        if name and name in keys:
            yield api_errors.duplicate(f"{path}[{index}].{key}", name)
        keys.add(name)
    if len(items) > most:
        yield api_errors.too_many(path, len(items), most)


def _one_of(value: JsonObject, keys: Sequence[str], path: str) -> Iterator[Cause]:
    fields = [key for key in keys if value.get(key)]
    listed = ", ".join(f"`{key}`" for key in keys) if len(keys) > 2 else " or ".join(f"`{key}`" for key in keys)
    text = f"exactly one of {listed} is required"
    if not fields:
        yield api_errors.required(path, text)
    elif len(fields) > 1:
        yield api_errors.invalid_value(path, None, f"{text}, but multiple fields are set")


# ------------------------------------------------------------------ parts
def driver_name(name: str, path: str) -> Iterator[Cause]:
    """Validate the name of a DRA driver."""
    if not name:
        yield api_errors.required(path)
        return
    if len(name) > 63:
        yield api_errors.too_long(path, 63)
    yield from validation.each(dns_subdomain(name.lower()), name, path)


def _selector(selector: JsonObject, path: str) -> Iterator[Cause]:
    cel = selector.get("cel")
    if cel is None:
        yield api_errors.required(f"{path}.cel")
        return
    expression = cel.get("expression", "")
    if len(expression) > _MOST_EXPRESSION:
        yield api_errors.too_long(f"{path}.cel.expression", _MOST_EXPRESSION)
    elif not expression:
        yield api_errors.required(f"{path}.cel.expression")
    elif problem := selector_problem(expression):
        yield api_errors.invalid_value(f"{path}.cel.expression", expression, problem)


def configuration(config: JsonObject, path: str) -> Iterator[Cause]:
    """Validate opaque device configuration."""
    opaque = config.get("opaque")
    if opaque is None:
        yield api_errors.required(f"{path}.opaque")
        return
    yield from driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")
    parameters, parameters_path = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        yield api_errors.required(parameters_path)
    elif not isinstance(parameters, dict):
        yield api_errors.invalid_value(parameters_path, "<value omitted>", "must be a valid JSON object")
    elif len(api_errors.quoted(parameters)) > _MOST_PARAMETERS:
        yield api_errors.too_long(parameters_path, _MOST_PARAMETERS)


def _toleration(toleration: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a toleration of device taints."""
    key, operator, value = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", "")
    if key:
        yield from validation.each(qualified_name(key), key, f"{path}.key")
    match operator:
        case "Exists":
            if value:
                text = "must be empty for operator `Exists`"
                yield api_errors.invalid_value(f"{path}.value", value, text)
        case "Equal":
            yield from validation.each(label_value(value), value, f"{path}.value")
        case "":
            yield api_errors.required(f"{path}.operator")
        case _:
            yield api_errors.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if toleration.get("effect"):
        yield from validation.one_of(toleration["effect"], _EFFECTS, f"{path}.effect")


# ------------------------------------------------------------------ classes
def validate_device_class(obj: JsonObject) -> Iterator[Cause]:
    """Validate a DeviceClass."""
    spec = obj.get("spec") or {}
    yield from all_of(spec.get("selectors"), _MOST, _selector, "spec.selectors")
    yield from all_of(spec.get("config"), _MOST, configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield api_errors.invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name")


# ------------------------------------------------------------------ claims
def validate_device_claim(obj: JsonObject) -> Iterator[Cause]:
    """Validate a ResourceClaim."""
    yield from _claim_spec(obj.get("spec") or {}, "spec")


def validate_device_claim_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the spec is immutable."""
    if obj.get("spec") != old.get("spec"):
        yield api_errors.invalid_value("spec", as_go(_CLAIM, obj.get("spec") or {}), "field is immutable")
    yield from validate_device_claim(obj)


def validate_claim_template_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the spec is immutable."""
    if obj.get("spec") != old.get("spec"):
        spec = obj.get("spec") or {}
        rendered = {**(spec.get("metadata") or {}), "Spec": as_go(_CLAIM, spec.get("spec") or {})}
        yield api_errors.invalid_value("spec", rendered, "field is immutable")
    yield from validate_claim_template(obj)


def validate_claim_template(obj: JsonObject) -> Iterator[Cause]:
    """Validate a ResourceClaimTemplate."""
    spec = obj.get("spec") or {}
    meta = spec.get("metadata") or {}
    yield from metadata.labels(meta.get("labels") or {}, "spec.metadata.labels")
    yield from metadata.annotation_causes(meta.get("annotations") or {}, "spec.metadata.annotations")
    yield from _claim_spec(spec.get("spec") or {}, "spec.spec")


def _claim_spec(spec: JsonObject, path: str) -> Iterator[Cause]:
    devices, devices_path = spec.get("devices") or {}, f"{path}.devices"
    requests = devices.get("requests") or []
    names = set(request_names(requests))
    yield from all_of(requests, _MOST, _request, f"{devices_path}.requests", "name")
    yield from all_of(
        devices.get("constraints"), _MOST, lambda c, p: _constraint(c, p, names), f"{devices_path}.constraints"
    )
    yield from all_of(devices.get("config"), _MOST, lambda c, p: _claim_config(c, p, names), f"{devices_path}.config")


def request_names(requests: Sequence[JsonObject]) -> Iterator[str]:
    """Return the names by which a claim refers to its requests."""
    for request in requests:
        name = request.get("name", "")
        yield name
        for alternative in request.get("firstAvailable") or ():
            yield f"{name}/{alternative.get('name', '')}"


def label_name(name: str, path: str) -> Iterator[Cause]:
    """Validate a required DNS label."""
    if not name:
        yield api_errors.required(path)
    else:
        yield from validation.label(name, path)


def _request(request: JsonObject, path: str) -> Iterator[Cause]:
    yield from label_name(request.get("name", ""), f"{path}.name")
    yield from _one_of(request, ("exactly", "firstAvailable"), path)
    yield from all_of(request.get("firstAvailable"), _MOST_ALTERNATIVES, _alternative, f"{path}.firstAvailable", "name")
    if request.get("exactly"):
        yield from _wanted(request["exactly"], f"{path}.exactly")


def _alternative(request: JsonObject, path: str) -> Iterator[Cause]:
    yield from label_name(request.get("name", ""), f"{path}.name")
    yield from _wanted(request, path)


def _wanted(request: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a request for devices."""
    name = request.get("deviceClassName", "")
    if not name:
        yield api_errors.required(f"{path}.deviceClassName")
    else:
        yield from validation.subdomain(name, f"{path}.deviceClassName")
    yield from all_of(request.get("selectors"), _MOST, _selector, f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            yield api_errors.invalid_value(f"{path}.count", count, text)
    elif mode == "ExactCount":
        if count <= 0:
            yield api_errors.invalid_value(f"{path}.count", count, "must be greater than zero")
    else:
        yield api_errors.unsupported(f"{path}.allocationMode", mode, _MODES)
    yield from all_of(request.get("tolerations"), 16, _toleration, f"{path}.tolerations")


def request_reference(name: str, requests: set[str], path: str) -> Iterator[Cause]:
    """Validate a reference to a request or a subrequest."""
    if name not in requests:
        text = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
        yield api_errors.invalid_value(path, name, text)


def request_references(references: Sequence[str] | None, requests: set[str], path: str) -> Iterator[Cause]:
    """Validate unique references to requests."""
    names: set[str] = set()
    for index, name in enumerate(references or ()):
        item_path = f"{path}[{index}]"
        yield from request_reference(name, requests, item_path)
        if name in names:
            yield api_errors.duplicate(item_path, name)
        names.add(name)
    if len(references or ()) > _MOST:
        yield api_errors.too_many(path, len(references or ()), _MOST)


def _constraint(constraint: JsonObject, path: str, requests: set[str]) -> Iterator[Cause]:
    yield from request_references(constraint.get("requests"), requests, f"{path}.requests")
    attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
    if not attribute:
        yield api_errors.required(f"{path}.matchAttribute")
    else:
        match_attribute_path = f"{path}.matchAttribute"
        yield from _qualified(attribute, match_attribute_path)
        if "/" not in attribute:
            yield api_errors.invalid_value(match_attribute_path, attribute, "must include a domain")


def _claim_config(config: JsonObject, path: str, requests: set[str]) -> Iterator[Cause]:
    yield from request_references(config.get("requests"), requests, f"{path}.requests")
    yield from configuration(config, path)


def _qualified(name: str, path: str) -> Iterator[Cause]:
    """Validate ``domain/identifier`` or ``identifier``."""
    if not name:
        yield api_errors.required(path, "name required")
        return
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield api_errors.required(path, "the prefix must not be empty")
    elif slash:
        yield from driver_name(domain, path)
    if not identifier:
        yield api_errors.required(path, "the name must not be empty")
        return
    if len(identifier) > 32:
        yield api_errors.too_long(path, 32)
    if not re.fullmatch(_IDENTIFIER, identifier):
        text = (
            f"a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric"
            f" characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is"
            f" '{_IDENTIFIER}')"
        )
        yield api_errors.invalid_value(path, identifier, text)


# ------------------------------------------------------------------ slices
def validate_slice(obj: JsonObject) -> Iterator[Cause]:
    """Validate a ResourceSlice."""
    spec = obj.get("spec") or {}
    yield from driver_name(spec.get("driver", ""), "spec.driver")
    pool = spec.get("pool") or {}
    path = "spec.pool"
    yield from pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield api_errors.invalid_value(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield api_errors.invalid_value(f"{path}.generation", generation, "must be greater than or equal to zero")
    if spec.get("nodeName") is not None:
        name = spec["nodeName"]
        if name:
            yield from validation.subdomain(name, "spec.nodeName")
        else:
            yield api_errors.invalid_value("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.get("nodeSelector") is not None:
        yield from validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) > 1:
            terms = spec["nodeSelector"]["nodeSelectorTerms"]
            text = "must have exactly one node selector term"
            yield api_errors.invalid_value("spec.nodeSelector.nodeSelectorTerms", terms, text)
    if not spec.get("sharedCounters"):
        yield from _one_of(spec, _PLACES, "spec")
    yield from all_of(spec.get("devices"), _MOST_DEVICES, _device, "spec.devices", "name")


def pool_name(name: str, path: str) -> Iterator[Cause]:
    """Validate a pool name: DNS subdomains joined by slashes."""
    if not name:
        yield api_errors.required(path)
        return
    if len(name) > _MOST_POOL:
        yield api_errors.too_long(path, _MOST_POOL)
    for part in name.split("/"):
        yield from validation.each(dns_subdomain(part), part, path)


def _device(device: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a device: its attributes, capacities and taints."""
    yield from label_name(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    for name, value in sorted(attributes.items()):
        attribute_path = f"{path}.attributes[{name}]"
        yield from _qualified(name, attribute_path)
        fields = [key for key in _VALUES if value.get(key) is not None]
        if not fields:
            yield api_errors.required(attribute_path, "exactly one value must be specified")
        elif len(fields) > 1:
            yield api_errors.invalid_value(attribute_path, value, "exactly one value must be specified")
        elif fields[0] in ("string", "version") and len(value[fields[0]]) > 64:
            yield api_errors.too_long(f"{attribute_path}.{fields[0]}", 64)
        elif fields[0] == "version" and not _SEMVER.fullmatch(value["version"]):
            text = "must be a string compatible with semver.org spec 2.0.0"
            yield api_errors.invalid_value(f"{attribute_path}.version", value["version"], text)
    for name, amount in sorted(capacity.items()):
        yield from _qualified(name, f"{path}.capacity[{name}]")
        if amount.get("requestPolicy") is not None and not device.get("allowMultipleAllocations"):
            text = "allowMultipleAllocations must be true"
            yield api_errors.not_allowed(f"{path}.capacity[{name}].requestPolicy", text)
    if len(attributes) + len(capacity) > _MOST:
        count = len(attributes) + len(capacity)
        text = f"the total number of attributes and capacities must not exceed {_MOST}"
        yield api_errors.invalid_value(path, count, text)
    yield from all_of(device.get("taints"), _MOST_TAINTS, _taint, f"{path}.taints")


def _taint(taint: JsonObject, path: str) -> Iterator[Cause]:
    key, value = taint.get("key", ""), taint.get("value", "")
    yield from validation.each(qualified_name(key), key, f"{path}.key")
    yield from validation.each(label_value(value), value, f"{path}.value")
    yield from validation.one_of(taint.get("effect"), _EFFECTS, f"{path}.effect")


def validate_taint_rule(obj: JsonObject) -> Iterator[Cause]:
    """Validate a DeviceTaintRule."""
    spec = obj.get("spec") or {}
    selector = spec.get("deviceSelector") or {}
    for key, rule in (("driver", driver_name), ("pool", pool_name), ("device", label_name)):
        if selector.get(key) is not None:
            yield from rule(selector[key], f"spec.deviceSelector.{key}")
    yield from _taint(spec.get("taint") or {}, "spec.taint")


def validate_slice_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: node, driver and pool name are immutable."""
    yield from validate_slice(obj)
    now, before = obj.get("spec") or {}, old.get("spec") or {}
    yield from validation.immutable_field(now.get("pool") or {}, before.get("pool") or {}, "name", "spec.pool.name")
    yield from validation.immutable_field(now, before, "driver", "spec.driver")
    yield from validation.immutable_field(now, before, "nodeName", "spec.nodeName")


_MOST_RESERVED: Final = 256
_MOST_RESULTS: Final = 32
_MOST_CONFIGURATIONS: Final = 64
_MOST_CONDITIONS: Final = 8
_SOURCES: Final = ("FromClaim", "FromClass")


def validate_claim_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate allocation, devices and consumers of a claim."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    names = set(request_names(((obj.get("spec") or {}).get("devices") or {}).get("requests") or []))
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or []
    yield from all_of(reserved, _MOST_RESERVED, _consumer, "status.reservedFor", "uid")
    yield from _devices(status.get("devices") or (), allocation or {})
    if reserved:
        reserved_for = before.get("reservedFor") or []
        deleted = bool(obj["metadata"].get("deletionTimestamp"))
        if allocation is None:
            yield api_errors.not_allowed("status.reservedFor", "may not be specified when `allocated` is not set")
        elif deleted and any(consumer not in reserved_for for consumer in reserved):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield api_errors.not_allowed("status.reservedFor", text)
    if allocation is None:
        return
    if before.get("allocation") is None:
        path = "status.allocation"
        devices, devices_path = allocation.get("devices") or {}, f"{path}.devices"
        results = devices.get("results")
        yield from all_of(results, _MOST_RESULTS, lambda r, p: _result(r, p, names), f"{devices_path}.results")
        configurations = devices.get("config")
        yield from all_of(
            configurations, _MOST_CONFIGURATIONS, lambda c, p: _configuration(c, p, names), f"{devices_path}.config"
        )
        if allocation.get("nodeSelector") is not None:
            yield from validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    elif allocation != before["allocation"]:
        yield api_errors.invalid_value("status.allocation", allocation, "field is immutable")


def _consumer(consumer: JsonObject, path: str) -> Iterator[Cause]:
    for key in ("resource", "name", "uid"):
        yield from validation.required(consumer.get(key), f"{path}.{key}")


def _result(result: JsonObject, path: str, requests: set[str]) -> Iterator[Cause]:
    yield from request_reference(result.get("request", ""), requests, f"{path}.request")
    yield from _place(result, path)


def _place(selector: JsonObject, path: str) -> Iterator[Cause]:
    """Validate driver, pool and device of a selector."""
    yield from driver_name(selector.get("driver", ""), f"{path}.driver")
    yield from pool_name(selector.get("pool", ""), f"{path}.pool")
    yield from label_name(selector.get("device", ""), f"{path}.device")


def _configuration(config: JsonObject, path: str, requests: set[str]) -> Iterator[Cause]:
    yield from validation.one_of(config.get("source"), _SOURCES, f"{path}.source")
    yield from request_references(config.get("requests"), requests, f"{path}.requests")
    yield from configuration(config, path)


def _devices(devices: Sequence[JsonObject], allocation: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the devices of a claim's status."""
    keys = ("driver", "pool", "device", "shareID")
    results = (allocation.get("devices") or {}).get("results") or ()
    allocated = {tuple(result.get(key) or "" for key in keys) for result in results}
    unique: set[tuple[str, ...]] = set()
    for index, device in enumerate(devices):
        item_path, key = f"status.devices[{index}]", tuple(device.get(key) or "" for key in keys)
        yield from _place(device, item_path)
        rendered = {"Driver": key[0], "Pool": key[1], "Device": key[2], "ShareID": key[3]}
        if key not in allocated:
            yield api_errors.invalid_value(item_path, rendered, "must be an allocated device in the claim")
        conditions = device.get("conditions") or ()
        if len(conditions) > _MOST_CONDITIONS:
            yield api_errors.too_many(f"{item_path}.conditions", len(conditions), _MOST_CONDITIONS)
        yield from validate_conditions(conditions, f"{item_path}.conditions")
        if key in unique:
            yield api_errors.duplicate(f"{item_path}.deviceID", rendered)
        unique.add(key)
