"""Compares admission policies in the cluster with those of the operator, and restores deleted bindings. Pure.

Differences are reported, and nothing is critical: the next version of the operator may declare other policies while
replicas of this one run, and an administrator who changes ``validationActions`` to ``Warn`` must win.

A deleted binding is restored, because its policy then silently has no effect. Its policy must still be there as this
operator declares it: an uninstall deletes both, and another version may have other bindings. To switch a policy off,
change its binding.

Upstream: k8s.io/api/admissionregistration/v1/types.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.base.shortened import shortened
from opsdk.children.ownership import APPLY, managers_of
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.registered.comparison import (
    RegistrationDiff,
    RegistrationFault,
    shown,
    without_empty,
)
from opsdk.webhook.registered.policy_targets import (
    PolicyKind,
    PolicyParams,
    PolicyTarget,
    RegisteredBinding,
    RegisteredPolicy,
)

_APPLY: Final = "apply the policies of this version: opsdk generate policies"
_FIELDS: Final = (
    "failurePolicy", "paramKind", "matchConstraints", "variables", "matchConditions", "validations",
    "auditAnnotations", "mutations", "reinvocationPolicy", "policyName", "paramRef", "matchResources",
    "validationActions",
)  # fmt: skip
"""The compared fields of the specs. Later versions of the API may have more."""
_SHOWN: Final = 200
"""The characters of a value that a fault shows."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def registered_policies(objects: Iterable[JsonObject]) -> list[RegisteredPolicy]:
    """Return what an operator follows of the objects of its policies: each policy, then its bindings."""
    policies: dict[PolicyTarget, RegisteredPolicy] = {}
    registered: list[RegisteredPolicy] = []
    for tree in objects:
        target, spec = PolicyTarget(PolicyKind(tree["kind"]), tree["metadata"]["name"]), tree["spec"]
        if (name := spec.get("policyName")) is None:
            policies[target] = RegisteredPolicy(target=target, spec=spec)
            registered.append(policies[target])
        else:
            bound = PolicyTarget(PolicyKind(tree["kind"].removesuffix("Binding")), name)
            registered.append(_registered_binding(target, spec, policies[bound]))
    return registered


def _registered_binding(target: PolicyTarget, spec: JsonObject, policy: RegisteredPolicy) -> RegisteredBinding:
    ref: JsonObject = spec.get("paramRef") or {}
    params = None
    if "name" in ref:
        kind = unstructured_kind(policy.spec["paramKind"]["apiVersion"], policy.spec["paramKind"]["kind"])
        params = PolicyParams(kind, ref["name"], ref.get("namespace", ""))
    return RegisteredBinding(target=target, spec=spec, policy=policy, params=params, is_restored="selector" not in ref)


# ------------------------------------------------------------------ comparison
def compare_policy(declared: RegisteredPolicy, tree: JsonObject | None) -> RegistrationDiff:
    """Compare a policy or binding in the cluster with its declaration. Nothing is patched.

    Args:
        declared: of the operator.
        tree: the object; None if it does not exist.
    """
    if tree is None:
        text = "does not exist"
        if isinstance(declared, RegisteredBinding):
            text += f", so {declared.policy.target} has no effect"
        return RegistrationDiff([], "", (RegistrationFault(text, _APPLY, critical=False),))
    texts = _differences(declared.spec, tree.get("spec") or {})
    return RegistrationDiff([], "", tuple(RegistrationFault(text, _APPLY, critical=False) for text in texts))


def _differences(declared: JsonObject, live: JsonObject) -> Iterator[str]:
    """Yield the fields of a spec that differ, with both values."""
    for name in _FIELDS:
        ours, theirs = (without_empty(spec.get(name)) for spec in (declared, live))
        if ours != theirs:
            yield f"{name} is {shortened(shown(theirs), _SHOWN)}, not {shortened(shown(ours), _SHOWN)}"


# ------------------------------------------------------------------ restoring
class RestoredBinding(NamedTuple):
    """A binding to apply.

    Attributes:
        tree: the object, with the labels and annotations of its policy, such as the release of a Helm chart.
        field_owner: the field manager that applied the policy: its next deployment then finds the binding as its own.
    """

    tree: JsonObject
    field_owner: str


def restored_binding(
    declared: RegisteredBinding, policy_tree: JsonObject | None, field_owner: str
) -> RestoredBinding | None:
    """Return the binding to create again; None if its policy is deleted or declared by another version.

    Args:
        declared: the binding, which does not exist.
        policy_tree: its policy in the cluster.
        field_owner: of the operator, for a policy without an apply.
    """
    if policy_tree is None or policy_tree["metadata"].get("deletionTimestamp"):
        return None
    if any(_differences(declared.policy.spec, policy_tree.get("spec") or {})):
        return None
    metadata: JsonObject = {"name": declared.target.name}
    for key in ("labels", "annotations"):
        values: JsonObject = policy_tree["metadata"].get(key) or {}
        if own := {name: text for name, text in values.items() if name != _LAST_APPLIED}:
            metadata[key] = own
    kind = declared.target.kind.kind
    tree = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": declared.spec}
    appliers = [manager.name for manager in managers_of(policy_tree) if manager.operation == APPLY]
    return RestoredBinding(tree, appliers[-1] if appliers else field_owner)
