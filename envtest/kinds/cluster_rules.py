"""What nodes and disruption budgets may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds import rules
from envtest.kinds.selector_rules import check_label_selector
from envtest.kinds.status_rules import validate_conditions
from opsdk.api.quantity import Quantity
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


# ------------------------------------------------------------------ nodes
def validate_node(obj: Tree) -> Iterator[Cause]:
    """A node."""
    spec = obj.get("spec") or {}
    yield from _taints(spec.get("taints") or ())
    yield from _amounts(obj.get("status") or {})
    for index, cidr in enumerate(spec.get("podCIDRs") or ()):
        if "/" not in cidr:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield problems.invalid_value(f"spec.podCIDRs[{index}]", cidr, text)


def _taints(taints: Sequence[Tree]) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from rules.each(names.qualified_name(key), key, f"{at}.key")
        found = names.label_value(taint.get("value", ""))
        if found:
            yield problems.invalid_value(f"{at}.value", taint["value"], ";".join(found))
        yield from rules.one_of(effect, _EFFECTS, f"{at}.effect")
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = f"Duplicate value: {problems.quoted(shown)}: taints must be unique by key and effect pair"
            yield Cause(reason="FieldValueDuplicate", message=text, field=at)
        seen.add((key, effect))


def _amounts(status: Tree) -> Iterator[Cause]:
    for kind in ("capacity", "allocatable"):
        for name, amount in sorted((status.get(kind) or {}).items()):
            if Quantity(amount) < Quantity("0"):
                yield problems.invalid_value(f"status.{kind}.{name}", amount, rules.NOT_NEGATIVE)


def validate_node_update(obj: Tree, old: Tree) -> Iterator[Cause]:
    """What a node was told once stays."""
    # The server looks at taints twice, and tells twice of what it finds.
    yield from _taints((obj.get("spec") or {}).get("taints") or ())
    yield from validate_node(obj)
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        yield problems.not_allowed("spec.podCIDRs", text)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        yield problems.not_allowed("spec.providerID", text)


def validate_node_status(obj: Tree, old: Tree) -> Iterator[Cause]:  # noqa: ARG001 - the shape of status rules
    """Amounts and addresses."""
    status = obj.get("status") or {}
    yield from _amounts(status)
    seen: list[Tree] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            yield problems.duplicate(f"status.addresses[{index}]", shown)
        seen.append(address)


# ------------------------------------------------------------------ disruption budgets
def validate_budget(obj: Tree) -> Iterator[Cause]:
    """A disruption budget."""
    spec = obj.get("spec") or {}
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield problems.invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            yield from rules.number_or_percent(value, f"spec.{key}")
            yield from rules.at_most_all(value, f"spec.{key}")
    yield from check_label_selector(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    yield from rules.one_of(
        policy, ("AlwaysAllow", "IfHealthyBudget"), "spec.unhealthyPodEvictionPolicy", optional=True
    )


def validate_budget_status(obj: Tree, old: Tree) -> Iterator[Cause]:  # noqa: ARG001 - the shape of status rules
    """Conditions and counts."""
    status = obj.get("status") or {}
    yield from validate_conditions(status.get("conditions") or (), "status.conditions")
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        yield from rules.not_negative(status.get(key), f"status.{key}")
