"""Match conditions of webhooks, judged by CEL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from opsdk.apiserver.admission.webhooks.answers import Invocation, question
from opsdk.apiserver.auth.authorization import Attributes, Authorizer
from opsdk.apiserver.endpoints.admit import Review
from opsdk.apiserver.storage.ports import Tree


class Conditions:
    """An `Evaluate` that asks this authorizer."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def __call__(self, review: Review, seen: Invocation, conditions: Sequence[Tree]) -> Sequence[bool | str]:
        """See `opsdk.apiserver.admission.webhooks.plugins.Evaluate`."""
        # CEL takes long to load, and most servers never see a condition.
        from opsdk.apiserver.expressions.admission import (  # noqa: PLC0415
            MATCH_BUDGET,
            compile_condition,
            request_variable,
        )
        from opsdk.apiserver.expressions.asking import Asking  # noqa: PLC0415
        from opsdk.apiserver.expressions.authorizer import AuthorizerValue, ResourceCheck  # noqa: PLC0415

        asking = Asking(self._authorizer)
        request = question(review, seen, uid="", version="v1")["request"]
        variables = {
            "object": seen.obj,
            "oldObject": seen.old,
            "namespaceObject": None,
            "request": request_variable(request),
            "authorizer": AuthorizerValue.of(asking.ask, review.user),
            "authorizer.requestResource": ResourceCheck.of(asking.ask, _attributes(review)),
        }
        budget, said = MATCH_BUDGET, list[bool | str]()
        for condition in conditions:
            expression = str(condition.get("expression") or "").strip()
            program = compile_condition(expression)
            if isinstance(program, str):
                said.append(f"compilation error: {program}")
                continue
            outcome = await asking.run(partial(program.run, variables, limit=budget))
            budget -= outcome.cost
            if outcome.error is not None:
                said.append(f"expression '{expression}' resulted in error: {outcome.error}")
            else:
                said.append(outcome.value is True)
        return said


def _attributes(review: Review) -> Attributes:
    return Attributes(
        user=review.user,
        verb="",
        group=review.resource.group,
        version=review.resource.version,
        resource=review.resource.resource,
        subresource=review.subresource,
        namespace=review.namespace,
        name=review.name,
    )
