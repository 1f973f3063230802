"""Checks in CEL: what must hold of each object of a kind, whenever the operator is at rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.cel.errors import CelCompileError
from opsdk.children.expression import compile_ready
from opsdk.client.client import Client
from opsdk.engine.world.declaration import Action, World
from opsdk.errors import NoMatchError, UsageError

__all__ = ["ObjectCheck", "parse_check", "rest_checks"]


_CONTROL_PLANE: Final = frozenset({
    "api-priority-and-fairness-config-consumer-v1",
    "api-priority-and-fairness-config-producer-v1",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
})  # fmt: skip
"""The field managers of what each cluster has."""


class ObjectCheck(msgspec.Struct, frozen=True):
    """A rule for each object of a kind, apart from those that each cluster has, such as ``kube-root-ca.crt``.

    Attributes:
        resource: the kind, such as ``deployments.apps``.
        expression: in CEL, with the object as ``self``.
    """

    resource: str
    expression: str

    async def violations(self, client: Client) -> list[str]:
        """Return which objects break the rule. Raises `UsageError` if the kind is not served."""
        try:
            gvk = (await client.mapper.kind_for(self.resource)).gvk
        except NoMatchError as error:
            raise UsageError(
                f"--check {self.resource}: {error}: name a kind of the operator, of Kubernetes, or of --crds"
            ) from error
        texts = []
        for obj in await client.list(unstructured_kind(gvk.api_version, gvk.kind)):
            if _is_of_cluster(obj):
                continue
            outcome = compile_ready(self.expression).run({"self": to_dict(obj)})
            if outcome.error is not None or outcome.value is not True:
                name = ObjectKey(obj.metadata.namespace, obj.metadata.name)
                reason = f"{outcome.error}" if outcome.error is not None else f"is {outcome.value!r}".lower()
                texts.append(f"{self.resource} {name}: {self.expression}: {reason}")
        return texts


def _is_of_cluster(obj: Unstructured) -> bool:
    """Whether only the control plane wrote an object, and nothing owns it: a pod has an owner."""
    managers = {entry.manager for entry in obj.metadata.managed_fields or ()}
    return managers <= _CONTROL_PLANE and not obj.metadata.owner_references


def rest_checks(checks: Sequence[ObjectCheck]) -> list[Action]:
    """Return checks as those of a declaration: see `SimulatedOperator.at_rest`."""
    return [_as_action(each) for each in checks]


def _as_action(rule: ObjectCheck) -> Action:
    async def check(world: World) -> None:
        violations = await rule.violations(world.client)
        assert not violations, "; ".join(violations)

    return check


def parse_check(text: str) -> ObjectCheck:
    """Return the check of a text ``KIND:EXPRESSION``.

    Raises:
        UsageError: it has another form, or the expression does not compile.

    >>> parse_check("deployments.apps: self.status.readyReplicas == self.spec.replicas").resource
    'deployments.apps'
    """
    resource, colon, expression = (part.strip() for part in text.partition(":"))
    if not resource or not colon or not expression:
        raise UsageError(f"--check is {text!r}: write KIND:EXPRESSION, such as 'configmaps: has(self.data)'")
    try:
        compile_ready(expression)
    except (CelCompileError, UsageError) as error:
        raise UsageError(f"--check is {text!r}: {error}") from error
    return ObjectCheck(resource, expression)
