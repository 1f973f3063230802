"""Evaluates ``matchConditions`` of policies.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go (v1.36).
"""

from __future__ import annotations

from opsdk.aio.large_work import attempt
from opsdk.apiserver.admission.policies.compiled_policy import CompiledPolicy
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy
from opsdk.apiserver.expressions.activation import Activation, judge
from opsdk.apiserver.expressions.admission import MATCH_BUDGET
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.structured_merge.value import JsonObject


async def conditions_hold(policy: AdmissionPolicy, asking: AuthorizerChecks, values: JsonObject) -> bool | str:
    """Return whether all conditions hold, or an error message if failurePolicy is Fail.

    A false condition takes precedence over errors of other conditions. The first call compiles the policy, outside the
    event loop if that takes long.
    """
    programs = await attempt(policy.compile_with, CompiledPolicy)
    if not programs.conditions:
        return True
    activation = Activation(asking, values, programs.variables, budget=MATCH_BUDGET)
    verdict = await judge(activation, programs.conditions)
    if any(outcome is False for outcome in verdict):
        return False
    wrong = [outcome for outcome in verdict if isinstance(outcome, str)]
    if not wrong:
        return True
    if policy.ignore_failures:
        return False
    return wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
