"""Checks in CEL: what must hold of each object of a kind, whenever the operator is at rest."""

from __future__ import annotations

import msgspec

from opsdk.apimachinery.kinds import unstructured
from opsdk.apimachinery.object import to_tree
from opsdk.cel.errors import CelCompileError
from opsdk.children.expression import compile_ready
from opsdk.client.client import Client
from opsdk.errors import NoMatchError, UsageError

__all__ = ["ObjectCheck", "parse_check"]


class ObjectCheck(msgspec.Struct, frozen=True):
    """A rule for each object of a kind.

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
            raise UsageError(f"--check {self.resource}: {error}: add its definition with --crds") from error
        problems = []
        for obj in await client.list(unstructured(gvk.api_version, gvk.kind)):
            outcome = compile_ready(self.expression).run({"self": to_tree(obj)})
            if outcome.error is not None or outcome.value is not True:
                name = "/".join(filter(None, (obj.metadata.namespace, obj.metadata.name)))
                reason = f"{outcome.error}" if outcome.error is not None else f"is {outcome.value!r}".lower()
                problems.append(f"check: {self.resource} {name}: {self.expression}: {reason}")
        return problems


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
