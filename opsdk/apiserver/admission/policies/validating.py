"""Runs validating policies: decisions, validation actions, audit annotations.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.cel_inputs import inputs, without_authorizer
from opsdk.apiserver.admission.policies.compiled_policy import CompiledPolicy, Validation
from opsdk.apiserver.admission.policies.match_conditions import conditions_hold
from opsdk.apiserver.admission.policies.matcher import (
    PolicyDependencies,
    PolicyInvocation,
    match_policies,
    namespace_of,
)
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy, PolicyBinding, PolicyHook
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributesAccessor
from opsdk.apiserver.expressions.activation import Activation, OutOfBudgetError
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.apiserver.expressions.environment import RUNTIME_BUDGET
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import Value
from opsdk.errors import ApiError, Cause
from opsdk.structured_merge.go_format import go_json
from opsdk.structured_merge.value import JsonObject

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE: Final = 5 * 1024
"""Bytes; a longer message is replaced by the static one."""
_LONGEST_ANNOTATION: Final = 10 * 1024
_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation of a failure. A request has it only for the first one."""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The result of one validation; without `message` it passed."""

    message: str = ""
    reason: str = ""


@dataclass(slots=True)
class PolicyEvaluation:
    """The results of a policy for one binding and one params object.

    Attributes:
        decisions: one for each validation; the validationActions apply to them.
        refusals: failures that deny the request whatever the validationActions are.
        annotations: audit annotations.
    """

    decisions: list[PolicyDecision] = field(default_factory=list)
    refusals: list[PolicyDecision] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


class _Judge:
    """Evaluates one policy for one binding and one params object."""

    def __init__(self, policy: AdmissionPolicy, asking: AuthorizerChecks, values: JsonObject) -> None:
        self._policy = policy
        self._asking = asking
        self._values = values
        self._plain = without_authorizer(values)

    @property
    def _programs(self) -> CompiledPolicy:
        return self._policy.compile_with(CompiledPolicy)  # `conditions_hold` has compiled it

    def _failed(self, message: str) -> PolicyDecision:
        return PolicyDecision() if self._policy.ignore_failures else PolicyDecision(message)

    async def judge(self) -> PolicyEvaluation:
        """Evaluate match conditions, validations, messages and audit annotations."""
        holds = await conditions_hold(self._policy, self._asking, self._values)
        if isinstance(holds, str):
            return PolicyEvaluation([PolicyDecision(holds)])
        if not holds:
            return PolicyEvaluation()
        try:
            variables = self._programs.variables
            activation = Activation(self._asking, self._values, variables, budget=RUNTIME_BUDGET)
            evaluations = [await _value(activation, validation.expression) for validation in self._programs.validations]
            values, remaining_budget = evaluations, activation.budget
            messages = await self._messages(remaining_budget)
            together = zip(self._programs.validations, values, messages, strict=True)
            verdict = PolicyEvaluation([self._decide(*one) for one in together])
            await self._annotate(verdict)
        except OutOfBudgetError as error:
            return PolicyEvaluation([self._failed(str(error))])
        return verdict

    async def _messages(self, budget: int) -> list[Value]:
        """Evaluate all message expressions. If the budget runs out, the error is the message of every validation."""
        activation = Activation(self._asking, self._plain, self._programs.variables, budget=budget)
        messages: list[Value] = []
        for validation in self._programs.validations:
            if validation.message_expression is None:
                messages.append(None)
                continue
            try:
                messages.append(await _value(activation, validation.message_expression))
            except OutOfBudgetError as error:
                return [error] * len(self._programs.validations)
        return messages

    def _decide(self, validation: Validation, value: Value, message_value: Value) -> PolicyDecision:
        if isinstance(value, CelEvaluationError):
            return self._failed(str(value))
        if isinstance(message_value, OutOfBudgetError):
            return self._failed(f"failed messageExpression: {message_value}")
        if value is True:
            return PolicyDecision()
        message = message_value.strip() if isinstance(message_value, str) else ""
        if len(message.encode()) > _LONGEST_MESSAGE or "\n" in message:
            message = ""
        otherwise = validation.message or f"failed expression: {validation.expression.text.strip()}"
        return PolicyDecision(message or otherwise, validation.reason or "Invalid")

    async def _annotate(self, verdict: PolicyEvaluation) -> None:
        annotations = self._programs.annotations
        if not annotations:
            return
        activation = Activation(self._asking, self._plain, self._programs.variables, budget=RUNTIME_BUDGET)
        for key, compiled in annotations:
            value = await _value(activation, compiled)
            if isinstance(value, CelEvaluationError):
                if not self._policy.ignore_failures:
                    verdict.refusals.append(PolicyDecision(str(value)))
            elif isinstance(value, str) and value.strip():
                verdict.annotations[key] = value.strip()[:_LONGEST_ANNOTATION]


async def _value(activation: Activation, compiled: Any) -> Any:
    """Return the value of an expression, or its evaluation error."""
    try:
        return await activation.evaluate(compiled)
    except CelEvaluationError as error:
        return error


# ------------------------------------------------------------------ results
@dataclass(frozen=True, slots=True)
class _Denied:
    policy: AdmissionPolicy
    binding: PolicyBinding | None
    decision: PolicyDecision

    @property
    def sort_key(self) -> tuple[str, str]:
        """The order of denials: policy name, then binding name."""
        return self.policy.name, "" if self.binding is None else self.binding.name

    @property
    def text(self) -> str:
        by = f" with binding '{self.binding.name}'" if self.binding is not None else ""
        return f"ValidatingAdmissionPolicy '{self.policy.name}'{by} denied request: {self.decision.message}"


async def validate(attributes: Attributes, hooks: Sequence[PolicyHook], ports: PolicyDependencies) -> None:
    """Enforce the validating policies: deny, warn or audit.

    Raises:
        ApiError: the first denial.
    """
    choice = await match_policies(attributes, hooks, ports)
    denied = [_Denied(failure.policy, failure.binding, PolicyDecision(failure.message)) for failure in choice.failures]
    if choice.invocations:
        denied += await _judge_all(attributes, choice.invocations, ports)
    if denied:
        first = min(denied, key=lambda one: one.sort_key)
        reason, causes = first.decision.reason or "Invalid", (Cause(message=first.text),)
        error = api_errors.forbidden(attributes.served.info, attributes.shown_name, first.text, causes=causes)
        raise ApiError(error.message, code=_CODES.get(reason, 422), reason=reason, details=error.details)


async def _judge_all(
    attributes: Attributes, invocations: Sequence[PolicyInvocation], ports: PolicyDependencies
) -> list[_Denied]:
    """Evaluate all policies: warn, annotate, and return what denies the request."""
    views, asking = (
        VersionedAttributesAccessor(attributes, ports.equivalents, ports.namespace),
        AuthorizerChecks(ports.authorizer),
    )
    namespace = namespace_of(attributes, ports)
    denied: list[_Denied] = []
    annotations: dict[str, list[str]] = {}
    for one in invocations:
        versioned = await views.versioned_attributes(one.served)
        values = inputs(attributes, versioned, asking, params=one.params, namespace=namespace)
        verdict = await _Judge(one.policy, asking, values).judge()
        for index, decision in enumerate(verdict.decisions):
            if decision.message:
                policy, binding = one.policy, one.binding
                if "Audit" in binding.actions:
                    attributes.call.annotate(_FAILURE, _audit_annotation(one, decision, index))
                if "Warn" in binding.actions:
                    by = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                    attributes.warn(f"Validation failed for {by}: {decision.message}")
                denied += [_Denied(policy, binding, decision)] if "Deny" in binding.actions else []
        denied += [_Denied(one.policy, one.binding, decision) for decision in verdict.refusals]
        for key, value in verdict.annotations.items():
            annotation_values = annotations.setdefault(f"{one.policy.name}/{key}", [])
            if value not in annotation_values:
                annotation_values.append(value)
    for key, annotation_values in annotations.items():
        attributes.call.annotate(key, ", ".join(annotation_values))
    return denied


def _audit_annotation(invocation: PolicyInvocation, decision: PolicyDecision, index: int) -> str:
    failure = {
        "message": decision.message,
        "policy": invocation.policy.name,
        "binding": invocation.binding.name,
        "expressionIndex": index,
        "validationActions": list(invocation.binding.actions),
    }
    return f"[{{{','.join(f'{go_json(key)}:{go_json(value)}' for key, value in failure.items())}}}]"
