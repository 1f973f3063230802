"""Evaluates ``matchConditions`` of webhooks with CEL.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.aio.large_work import attempt
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributes
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.structured_merge.value import JsonObject


class MatchConditions:
    """An `Evaluate` that passes this authorizer to match conditions."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def __call__(
        self, attributes: Attributes, versioned: VersionedAttributes, conditions: Sequence[JsonObject]
    ) -> Sequence[bool | str]:
        # CEL is slow to import, and most servers have no match condition.
        from opsdk.apiserver.admission.cel_inputs import inputs  # noqa: PLC0415
        from opsdk.apiserver.expressions.activation import Activation, CompiledExpression, judge  # noqa: PLC0415 - CEL
        from opsdk.apiserver.expressions.admission import MATCH_BUDGET, compile_condition  # noqa: PLC0415 - CEL
        from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks  # noqa: PLC0415 - CEL

        asking = AuthorizerChecks(self._authorizer)
        activation = Activation(asking, inputs(attributes, versioned, asking), budget=MATCH_BUDGET)
        texts = [str(condition.get("expression") or "").strip() for condition in conditions]
        compiled = [CompiledExpression(text, await attempt(compile_condition, text)) for text in texts]
        return await judge(activation, compiled)
