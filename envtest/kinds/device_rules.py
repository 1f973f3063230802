"""Claims for devices, the slices that offer them and their classes: what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from envtest.kinds import rules
from envtest.kinds.affinity_rules import validate_node_selector
from opsdk.apiserver import problems
from opsdk.apiserver.registry import metadata, names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_MOST: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MOST_DEVICES: Final = 128
_MOST_EXPRESSION: Final = 10 * 1024
_MOST_PARAMETERS: Final = 10 * 1024
_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_MODES: Final = ("All", "ExactCount")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("int", "bool", "string", "version")

Check = Callable[[Tree, str], Iterator[Cause]]


def _all(found: Sequence[Any] | None, most: int, check: Check, path: str, key: str = "") -> Iterator[Cause]:
    """Every element, of which there may be so many; with `key`, no two alike in it."""
    items = found or ()
    seen: set[Any] = set()
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")
        name = item.get(key) if key else None
        if name and name in seen:
            yield problems.duplicate(f"{path}[{index}].{key}", name)
        seen.add(name)
    if len(items) > most:
        yield problems.too_many(path, len(items), most)


def _one_of(found: Tree, keys: Sequence[str], path: str) -> Iterator[Cause]:
    given = [key for key in keys if found.get(key)]
    listed = ", ".join(f"`{key}`" for key in keys) if len(keys) > 2 else " or ".join(f"`{key}`" for key in keys)
    text = f"exactly one of {listed} is required"
    if not given:
        yield problems.required(path, text)
    elif len(given) > 1:
        yield problems.invalid_value(path, None, f"{text}, but multiple fields are set")


# ------------------------------------------------------------------ parts
def _driver(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield problems.required(path)
        return
    if len(name) > 63:
        yield problems.too_long(path, 63)
    yield from rules.each(names.dns_subdomain(name.lower()), name, path)


def _selector(selector: Tree, path: str) -> Iterator[Cause]:
    cel = selector.get("cel")
    if cel is None:
        yield problems.required(f"{path}.cel")
        return
    expression = cel.get("expression", "")
    if len(expression) > _MOST_EXPRESSION:
        yield problems.too_long(f"{path}.cel.expression", _MOST_EXPRESSION)
    elif not expression:
        yield problems.required(f"{path}.cel.expression")


def _configuration(found: Tree, path: str) -> Iterator[Cause]:
    opaque = found.get("opaque")
    if opaque is None:
        yield problems.required(path, "exactly one of the configuration types is required")
        return
    yield from _driver(opaque.get("driver", ""), f"{path}.opaque.driver")
    parameters, at = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        yield problems.required(at)
    elif not isinstance(parameters, dict):
        yield problems.invalid_value(at, "<value omitted>", "must be a valid JSON object")
    elif len(problems.quoted(parameters)) > _MOST_PARAMETERS:
        yield problems.too_long(at, _MOST_PARAMETERS)


def _toleration(found: Tree, path: str) -> Iterator[Cause]:
    key, operator, value = found.get("key", ""), found.get("operator", ""), found.get("value", "")
    if key:
        yield from rules.each(names.qualified_name(key), key, f"{path}.key")
    match operator:
        case "Exists":
            if value:
                text = "must be empty for operator `Exists`"
                yield problems.invalid_value(f"{path}.value", value, text)
        case "Equal":
            yield from rules.each(names.label_value(value), value, f"{path}.value")
        case "":
            yield problems.required(f"{path}.operator")
        case _:
            yield problems.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if found.get("effect"):
        yield from rules.one_of(found["effect"], _EFFECTS, f"{path}.effect")


# ------------------------------------------------------------------ classes
def validate_device_class(obj: Tree) -> Iterator[Cause]:
    """Which devices, and how they are set up."""
    spec = obj.get("spec") or {}
    yield from _all(spec.get("selectors"), _MOST, _selector, "spec.selectors")
    yield from _all(spec.get("config"), _MOST, _configuration, "spec.config")


# ------------------------------------------------------------------ claims
def validate_device_claim(obj: Tree) -> Iterator[Cause]:
    """A resource claim."""
    yield from _claim_spec(obj.get("spec") or {}, "spec")


def validate_device_claim_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """What is wanted stays."""
    yield from rules.unchanged(obj, old, "spec")


def validate_claim_template(obj: Tree) -> Iterator[Cause]:
    """What claims are made from."""
    spec = obj.get("spec") or {}
    meta = spec.get("metadata") or {}
    yield from metadata.labels(meta.get("labels") or {}, "spec.metadata.labels")
    yield from metadata.annotation_causes(meta.get("annotations") or {}, "spec.metadata.annotations")
    yield from _claim_spec(spec.get("spec") or {}, "spec.spec")


def _claim_spec(spec: Tree, path: str) -> Iterator[Cause]:
    devices, at = spec.get("devices") or {}, f"{path}.devices"
    requests = devices.get("requests") or []
    known = set(_request_names(requests))
    yield from _all(requests, _MOST, _request, f"{at}.requests", "name")
    yield from _all(devices.get("constraints"), _MOST, lambda c, p: _constraint(c, p, known), f"{at}.constraints")
    yield from _all(devices.get("config"), _MOST, lambda c, p: _claim_config(c, p, known), f"{at}.config")


def _request_names(requests: Sequence[Tree]) -> Iterator[str]:
    for request in requests:
        name = request.get("name", "")
        yield name
        for alternative in request.get("firstAvailable") or ():
            yield f"{name}/{alternative.get('name', '')}"


def _request_name(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield problems.required(path)
    else:
        yield from rules.label(name, path)


def _request(request: Tree, path: str) -> Iterator[Cause]:
    yield from _request_name(request.get("name", ""), f"{path}.name")
    yield from _one_of(request, ("exactly", "firstAvailable"), path)
    yield from _all(request.get("firstAvailable"), _MOST_ALTERNATIVES, _alternative, f"{path}.firstAvailable", "name")
    if request.get("exactly"):
        yield from _wanted(request["exactly"], f"{path}.exactly")


def _alternative(request: Tree, path: str) -> Iterator[Cause]:
    yield from _request_name(request.get("name", ""), f"{path}.name")
    yield from _wanted(request, path)


def _wanted(request: Tree, path: str) -> Iterator[Cause]:
    name = request.get("deviceClassName", "")
    if not name:
        yield problems.required(f"{path}.deviceClassName")
    else:
        yield from rules.subdomain(name, f"{path}.deviceClassName")
    yield from _all(request.get("selectors"), _MOST, _selector, f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            yield problems.invalid_value(f"{path}.count", count, text)
    elif mode == "ExactCount":
        if count <= 0:
            yield problems.invalid_value(f"{path}.count", count, "must be greater than zero")
    else:
        yield problems.unsupported(f"{path}.allocationMode", mode, _MODES)
    yield from _all(request.get("tolerations"), 16, _toleration, f"{path}.tolerations")


def _named(found: Sequence[str] | None, known: set[str], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, name in enumerate(found or ()):
        at = f"{path}[{index}]"
        if name not in known:
            text = (
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
            )
            yield problems.invalid_value(at, name, text)
        if name in seen:
            yield problems.duplicate(at, name)
        seen.add(name)
    if len(found or ()) > _MOST:
        yield problems.too_many(path, len(found or ()), _MOST)


def _constraint(found: Tree, path: str, known: set[str]) -> Iterator[Cause]:
    yield from _named(found.get("requests"), known, f"{path}.requests")
    attribute = found.get("matchAttribute") or found.get("distinctAttribute")
    if not attribute:
        yield problems.required(f"{path}.matchAttribute")
    else:
        yield from _full_name(attribute, f"{path}.matchAttribute")


def _claim_config(found: Tree, path: str, known: set[str]) -> Iterator[Cause]:
    yield from _named(found.get("requests"), known, f"{path}.requests")
    yield from _configuration(found, path)


def _full_name(name: str, path: str) -> Iterator[Cause]:
    yield from _qualified(name, path)
    if "/" not in name:
        yield problems.invalid_value(path, name, "must include a domain")


def _qualified(name: str, path: str) -> Iterator[Cause]:
    """``domain/identifier`` or ``identifier``."""
    if not name:
        yield problems.required(path, "name required")
        return
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield problems.required(path, "the prefix must not be empty")
    elif slash:
        yield from _driver(domain, path)
    if not identifier:
        yield problems.required(path, "the name must not be empty")
        return
    if len(identifier) > 32:
        yield problems.too_long(path, 32)
    if not re.fullmatch(_IDENTIFIER, identifier):
        text = (
            f"a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric"
            f" characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is"
            f" '{_IDENTIFIER}')"
        )
        yield problems.invalid_value(path, identifier, text)


# ------------------------------------------------------------------ slices
def validate_slice(obj: Tree) -> Iterator[Cause]:
    """What a node, or a network, has to offer."""
    spec = obj.get("spec") or {}
    yield from _driver(spec.get("driver", ""), "spec.driver")
    yield from _pool(spec.get("pool") or {}, "spec.pool")
    if spec.get("nodeName") is not None:
        name = spec["nodeName"]
        if name:
            yield from rules.subdomain(name, "spec.nodeName")
        else:
            yield problems.invalid_value("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.get("nodeSelector") is not None:
        yield from validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) > 1:
            terms = spec["nodeSelector"]["nodeSelectorTerms"]
            text = "must have exactly one node selector term"
            yield problems.invalid_value("spec.nodeSelector.nodeSelectorTerms", terms, text)
    if not spec.get("sharedCounters"):
        yield from _one_of(spec, _PLACES, "spec")
    yield from _all(spec.get("devices"), _MOST_DEVICES, _device, "spec.devices", "name")


def _pool(pool: Tree, path: str) -> Iterator[Cause]:
    name = pool.get("name", "")
    if not name:
        yield problems.required(f"{path}.name")
    else:
        if len(name) > 253:
            yield problems.too_long(f"{path}.name", 253)
        for part in name.split("/"):
            yield from rules.each(names.dns_subdomain(part), part, f"{path}.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        yield problems.invalid_value(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if pool.get("generation", 0) < 0:
        text = "must be greater than or equal to zero"
        yield problems.invalid_value(f"{path}.generation", pool["generation"], text)


def _device(device: Tree, path: str) -> Iterator[Cause]:
    yield from _request_name(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    for name, value in sorted(attributes.items()):
        at = f"{path}.attributes[{name}]"
        yield from _qualified(name, at)
        given = [key for key in _VALUES if value.get(key) is not None]
        if not given:
            yield problems.required(at, "exactly one value must be specified")
        elif len(given) > 1:
            yield problems.invalid_value(at, value, "exactly one value must be specified")
        elif given[0] in ("string", "version") and len(value[given[0]]) > 64:
            yield problems.too_long(f"{at}.{given[0]}", 64)
    for name in sorted(capacity):
        yield from _qualified(name, f"{path}.capacity[{name}]")
    if len(attributes) + len(capacity) > _MOST:
        count = len(attributes) + len(capacity)
        text = f"the total number of attributes and capacities must not exceed {_MOST}"
        yield problems.invalid_value(path, count, text)


def validate_slice_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """Whose it is stays."""
    yield from validate_slice(obj)
    now, before = obj.get("spec") or {}, old.get("spec") or {}
    yield from rules.unchanged(now.get("pool") or {}, before.get("pool") or {}, "name", "spec.pool.name")
    yield from rules.unchanged(now, before, "driver", "spec.driver")
    yield from rules.unchanged(now, before, "nodeName", "spec.nodeName")
