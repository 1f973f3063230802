"""Validation of storage classes, CSI drivers, CSI nodes, attachments and capacities.

Upstream: pkg/apis/storage/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.codec.go_structs import NullablePart, Shape, as_go
from envtest.groups.common import validation
from envtest.groups.common.label_selectors import check_label_selector
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.validation import dns_subdomain, qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_MOST_PARAMETERS: Final = 512
_MOST_BYTES: Final = 256 * 1024
_POLICIES: Final = ("Delete", "Retain")
_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES: Final = ("Ephemeral", "Persistent")
_LEAST_PERIOD: Final = 10
"""Minimum seconds between updates of a node's allocatable volume count."""
_NODE_DRIVER: Final[Shape] = {
    "Name": "",
    "NodeID": "",
    "TopologyKeys": None,
    "Allocatable": NullablePart({"Count": None}),
}
_ATTACHMENT: Final[Shape] = {
    "Attacher": "",
    "Source": {"PersistentVolumeName": None, "InlineVolumeSpec": None},
    "NodeName": "",
}
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


# ------------------------------------------------------------------ classes
def validate_class(obj: JsonObject) -> Iterator[Cause]:
    """Validate a StorageClass."""
    provisioner = obj.get("provisioner", "").lower()
    if not provisioner:
        yield api_errors.required("provisioner")
    else:
        yield from validation.each(qualified_name(provisioner), provisioner, "provisioner")
    yield from _parameters(obj.get("parameters") or {})
    if obj.get("reclaimPolicy"):
        yield from validation.one_of(obj["reclaimPolicy"], _POLICIES, "reclaimPolicy")
    yield from validation.one_of(obj.get("volumeBindingMode"), _MODES, "volumeBindingMode")
    terms: Sequence[JsonObject] = obj.get("allowedTopologies") or ()
    # Upstream's slice starts with len(terms) empty maps, so an empty term is a duplicate.
    previous: list[Mapping[str, set[str]]] = [{}] * len(terms)
    for index, term in enumerate(terms):
        expressions_path = f"allowedTopologies[{index}].matchLabelExpressions"
        keys: set[str] = set()
        for position, expression in enumerate(term.get("matchLabelExpressions") or ()):
            item_path, key, values = (
                f"{expressions_path}[{position}]",
                expression.get("key", ""),
                expression.get("values") or [],
            )
            if not values:
                yield api_errors.required(f"{item_path}.values")
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield api_errors.duplicate(f"{item_path}.values[{number}]", value)
            yield from validation.each(qualified_name(key), key, f"{item_path}.key")
            if key in keys:
                yield api_errors.duplicate(f"{item_path}.key", key)
            keys.add(key)
        requirements = {e.get("key", ""): set(e.get("values") or ()) for e in term.get("matchLabelExpressions") or ()}
        yield from (api_errors.duplicate(expressions_path, "") for other in previous if other == requirements)
        previous.append(requirements)


def _parameters(parameters: Mapping[str, str]) -> Iterator[Cause]:
    if len(parameters) > _MOST_PARAMETERS:
        yield api_errors.too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield api_errors.invalid_value("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MOST_BYTES:
        yield api_errors.too_long("parameters", _MOST_BYTES)


def validate_class_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: parameters, provisioner, reclaim policy and binding mode are immutable."""
    yield from validate_class(obj)
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        yield from validation.immutable_field(obj, old, key)


# ------------------------------------------------------------------ drivers
def _driver(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield api_errors.required(path)
    elif len(name) > 63:
        yield api_errors.too_long(path, 63)
    else:
        yield from validation.each(dns_subdomain(name.lower()), name, path)


def validate_driver(obj: JsonObject) -> Iterator[Cause]:
    """Validate a CSIDriver."""
    spec: JsonObject = obj.get("spec") or {}
    yield from _driver(obj["metadata"].get("name", ""), "name")
    for key in ("attachRequired", "podInfoOnMount", "storageCapacity"):
        if spec.get(key) is None:
            yield api_errors.required(f"spec.{key}")
    yield from validation.one_of(spec.get("fsGroupPolicy"), _GROUP_POLICIES, "spec.fsGroupPolicy")
    yield from _tokens(spec.get("tokenRequests") or ())
    for mode in spec.get("volumeLifecycleModes") or ():
        yield from validation.one_of(mode, _LIFECYCLES, "spec.volumeLifecycleModes")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _LEAST_PERIOD:
        text = f"must be greater than or equal to {_LEAST_PERIOD}"
        yield api_errors.invalid_value("spec.nodeAllocatableUpdatePeriodSeconds", period, text)
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "may only be set when `tokenRequests` is set"
        yield api_errors.invalid_value("spec.serviceAccountTokenInSecrets", in_secrets, text)


def _tokens(requests: Sequence[JsonObject]) -> Iterator[Cause]:
    """Yield what is wrong with the token requests of a CSI driver."""
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        item_path, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        if audience in audiences:
            yield api_errors.duplicate(f"{item_path}.audience", audience)
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is None:
            continue
        if seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            yield api_errors.invalid_value(f"{item_path}.expirationSeconds", seconds, text)
        if seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            yield api_errors.invalid_value(f"{item_path}.expirationSeconds", seconds, text)


def validate_driver_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: ``attachRequired`` and ``volumeLifecycleModes`` are immutable."""
    yield from validate_driver(obj)
    new, before = obj.get("spec") or {}, old.get("spec") or {}
    yield from validation.immutable_field(new, before, "attachRequired", "spec.attachedRequired")
    yield from validation.immutable_field(new, before, "volumeLifecycleModes", "spec.volumeLifecycleModes")


def validate_driver_node(obj: JsonObject) -> Iterator[Cause]:
    """Validate a CSINode."""
    names: set[str] = set()
    for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        item_path, name, node = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        yield from _driver(name, f"{item_path}.name")
        if not node:
            yield api_errors.required(f"{item_path}.nodeID")
        elif len(node) > 256:
            yield api_errors.invalid_value(f"{item_path}.nodeID", node, "must be 256 characters or less")
        count = (driver.get("allocatable") or {}).get("count")
        yield from validation.not_negative(count, f"{item_path}.allocatable.count")
        if name in names:
            yield api_errors.duplicate(f"{item_path}.name", name)
        names.add(name)
        yield from _keys(driver.get("topologyKeys") or [], item_path)


def _keys(keys: Sequence[str], path: str) -> Iterator[Cause]:
    for index, key in enumerate(keys):
        if not key:
            yield api_errors.required(path)
        if key in keys[:index]:
            yield api_errors.duplicate(path, key)
        yield from validation.each(qualified_name(key), list(keys), path)


def validate_driver_node_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: an existing driver is immutable except for its allocatable count."""
    yield from validate_driver_node(obj)
    now, before = ((o.get("spec") or {}).get("drivers") or () for o in (obj, old))
    for driver in before:
        for other in now:
            if other.get("name") == driver.get("name") and _without_allocatable(other) != _without_allocatable(driver):
                yield api_errors.invalid_value("CSINodeDriver", as_go(_NODE_DRIVER, other), "field is immutable")


def _without_allocatable(driver: JsonObject) -> JsonObject:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def validate_attachment(obj: JsonObject) -> Iterator[Cause]:
    """Validate a VolumeAttachment."""
    spec: JsonObject = obj.get("spec") or {}
    yield from _driver(spec.get("attacher", ""), "spec.attacher")
    source = spec.get("source") or {}
    sources = [key for key in ("inlineVolumeSpec", "persistentVolumeName") if source.get(key) is not None]
    if not sources:
        yield api_errors.required("spec.source", _ONE_SOURCE)
    elif len(sources) > 1:
        yield api_errors.not_allowed("spec.source", _ONE_SOURCE)
    yield from validation.subdomain(spec.get("nodeName", ""), "spec.nodeName")
    if source.get("persistentVolumeName") is not None:
        yield from validation.subdomain(source["persistentVolumeName"], "spec.source.persistentVolumeName")


def validate_attachment_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the spec is immutable."""
    yield from validate_attachment(obj)
    if obj.get("spec") != old.get("spec"):
        yield api_errors.invalid_value("spec", as_go(_ATTACHMENT, obj.get("spec") or {}), "field is immutable")


# ------------------------------------------------------------------ capacities
def validate_capacity(obj: JsonObject) -> Iterator[Cause]:
    """Validate a CSIStorageCapacity."""
    name = obj.get("storageClassName", "")
    if not name:
        yield api_errors.required("storageClassName")
    else:
        yield from validation.subdomain(name, "storageClassName")
    if obj.get("nodeTopology") is not None:
        yield from check_label_selector(obj["nodeTopology"], "nodeTopology")
    for key in ("capacity", "maximumVolumeSize"):
        if obj.get(key) is not None and Quantity(str(obj[key])) < Quantity("0"):
            yield api_errors.invalid_value(key, obj[key], validation.NOT_NEGATIVE)


def validate_capacity_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: topology and class are immutable."""
    yield from validate_capacity(obj)
    for key in ("nodeTopology", "storageClassName"):
        yield from validation.immutable_field(obj, old, key)


# ------------------------------------------------------------------ volume attributes classes
def validate_attributes(obj: JsonObject) -> Iterator[Cause]:
    """Validate a VolumeAttributesClass."""
    driver, parameters = obj.get("driverName", ""), obj.get("parameters") or {}
    if not driver:
        yield api_errors.required("driverName")
    else:
        yield from validation.each(qualified_name(driver.lower()), driver, "driverName")
    yield from _parameters(parameters)
    if not parameters:
        yield api_errors.required("parameters", "must contain at least one key/value pair")


def validate_attributes_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: driver and parameters are immutable."""
    for key in ("driverName", "parameters"):
        if (obj.get(key) or None) != (old.get(key) or None):
            yield api_errors.not_allowed(key, f"updates to {key} are forbidden.")
