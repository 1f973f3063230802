"""Validation of nodes.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.common import validation
from envtest.groups.common.ip_addresses import block, read_block
from envtest.groups.core import resource_names
from opsdk.apimachinery.validation import label_value, qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node(obj: JsonObject) -> Iterator[Cause]:
    """Validate a Node."""
    spec = obj.get("spec") or {}
    yield from _taints(spec.get("taints") or ())
    yield from _amounts(obj.get("status") or {})
    # At most one pod CIDR of each IP family.
    blocks = spec.get("podCIDRs") or []
    path = "spec.podCIDRs"
    wrong = False
    for index, text in enumerate(blocks):
        for cause in block(text, f"{path}[{index}]"):
            wrong = True
            yield cause
    if len(blocks) < 2 or wrong:
        return
    families = {read.version for read in map(read_block, blocks) if read is not None}
    if len(families) < len(blocks):
        yield api_errors.invalid_value(path, blocks, "may specify no more than one CIDR for each IP family")
    for index, text in enumerate(blocks):
        if text in blocks[:index]:
            yield api_errors.duplicate(f"{path}[{index}]", text)


def _taints(taints: Sequence[JsonObject]) -> Iterator[Cause]:
    """Yield what is wrong with the taints of a node."""
    keys: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        item_path, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from validation.each(qualified_name(key), key, f"{item_path}.key")
        problems = label_value(taint.get("value", ""))
        if problems:
            yield api_errors.invalid_value(f"{item_path}.value", taint["value"], ";".join(problems))
        yield from validation.one_of(effect, _EFFECTS, f"{item_path}.effect")
        if (key, effect) in keys:
            rendered = {
                "Key": key,
                "Value": taint.get("value", ""),
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            text = f"Duplicate value: {api_errors.quoted(rendered)}: taints must be unique by key and effect pair"
            yield Cause(reason="FieldValueDuplicate", message=text, field=item_path)
        keys.add((key, effect))


def _amounts(status: JsonObject) -> Iterator[Cause]:
    for kind in ("capacity", "allocatable"):
        for name, amount in sorted((status.get(kind) or {}).items()):
            yield from resource_names.amount(name, amount, f"status.{kind}.{name}")


def validate_node_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update; as upstream, errors of the object itself are reported twice."""
    yield from validate_node(obj)
    yield from validate_node_status(obj, old)


def validate_node_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate capacity, allocatable and addresses, and what every update of a node checks."""
    status, spec, before = obj.get("status") or {}, obj.get("spec") or {}, old.get("spec") or {}
    yield from _amounts(status)
    addresses_before: list[JsonObject] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in addresses_before:
            rendered = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            yield api_errors.duplicate(f"status.addresses[{index}]", rendered)
        addresses_before.append(address)
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        yield api_errors.not_allowed("spec.podCIDRs", text)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        yield api_errors.not_allowed("spec.providerID", text)
    yield from _taints(spec.get("taints") or ())
    if spec.get("externalID", "") != before.get("externalID", ""):
        yield api_errors.not_allowed("spec.externalID", "may not be updated")
