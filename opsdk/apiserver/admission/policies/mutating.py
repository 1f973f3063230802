"""Runs mutating policies in order; each receives the object that the previous ones changed.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.cel_inputs import inputs
from opsdk.apiserver.admission.policies.compiled_policy import CompiledPolicy, Mutation
from opsdk.apiserver.admission.policies.match_conditions import conditions_hold
from opsdk.apiserver.admission.policies.matcher import (
    PolicyDependencies,
    PolicyFailure,
    PolicyInvocation,
    match_policies,
    namespace_of,
)
from opsdk.apiserver.admission.policies.patches import apply_configuration, apply_operations
from opsdk.apiserver.admission.policies.policy_source import PolicyHook
from opsdk.apiserver.admission.reinvocation import Reinvocation
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributesAccessor
from opsdk.apiserver.expressions.activation import Activation, OutOfBudgetError
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.apiserver.expressions.environment import RUNTIME_BUDGET
from opsdk.cel.errors import CelEvaluationError
from opsdk.errors import ApiError, Cause, DecodeError, PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject


async def mutate(attributes: Attributes, hooks: Sequence[PolicyHook], ports: PolicyDependencies) -> None:
    """Apply the matching policies to the object.

    Raises:
        ApiError: a policy failed, and its failurePolicy is Fail.
    """
    choice = await match_policies(attributes, hooks, ports)
    failures = choice.failures
    if choice.invocations:
        failures = [*failures, *await _Mutator(attributes, ports).run(choice.invocations)]
    if failures:
        texts: list[str] = []
        for failure in failures:
            by = f" with binding '{failure.binding.name}'" if failure.binding is not None else ""
            texts.append(f"policy '{failure.policy.name}'{by} denied request: {failure.message}")
        causes = tuple(Cause(message=text) for text in texts)
        error = api_errors.forbidden(attributes.served.info, attributes.shown_name, "", causes=causes)
        raise ApiError(texts[0], code=403, reason=failures[0].reason or "Forbidden", details=error.details)


class _Mutator:
    """One mutating round of one request."""

    def __init__(self, attributes: Attributes, ports: PolicyDependencies) -> None:
        self._review = attributes
        self._views = VersionedAttributesAccessor(attributes, ports.equivalents, ports.namespace)
        self._asking = AuthorizerChecks(ports.authorizer)
        self._namespace = namespace_of(attributes, ports)
        self._failures: list[PolicyFailure] = []

    async def run(self, invocations: Sequence[PolicyInvocation]) -> list[PolicyFailure]:
        """Return the failures of policies with failurePolicy Fail."""
        rounds = Reinvocation.of(self._review, "MutatingAdmissionPolicy")
        for one in invocations:
            holds = await conditions_hold(one.policy, self._asking, await self._inputs(one))
            if isinstance(holds, str):
                self._fail(one, holds)
            if (holds is True) and not (self._review.is_reinvoke and one.key not in rounds.to_reinvoke):
                before = self._review.obj
                for mutation in one.policy.compile_with(CompiledPolicy).mutations:
                    if self._review.obj is None:
                        break
                    try:
                        await self._change(one, mutation)
                    except (CelEvaluationError, OutOfBudgetError, PatchError, DecodeError) as error:
                        self._fail(one, str(error))
                if one.policy.reinvoke:
                    rounds.previously_invoked.add(one.key)
                if not deep_equal(before, self._review.obj):
                    rounds.changed()  # a policy is reinvoked after its own changes too, unlike a webhook
                    self._review.reinvoke = True
        rounds.last_output = self._review.obj
        return self._failures

    def _fail(self, invocation: PolicyInvocation, message: str) -> None:
        if not invocation.policy.ignore_failures:
            self._failures.append(PolicyFailure(invocation.policy, invocation.binding, message, "Invalid"))

    async def _inputs(self, invocation: PolicyInvocation) -> JsonObject:
        versioned = await self._views.versioned_attributes(invocation.served)
        return inputs(self._review, versioned, self._asking, params=invocation.params, namespace=self._namespace)

    async def _change(self, invocation: PolicyInvocation, mutation: Mutation) -> None:
        """Apply one mutation to the policy's view of the object. Raises `PatchError`."""
        values = await self._inputs(invocation)
        before: JsonObject = values["object"]
        activation = Activation(
            self._asking, values, invocation.policy.compile_with(CompiledPolicy).variables, budget=RUNTIME_BUDGET
        )
        if mutation.expression.fault:
            raise PatchError(mutation.expression.fault)
        value = await activation.evaluate(mutation.expression)
        model = invocation.served.model
        if not mutation.patch:
            after = apply_configuration(before, value, model.shape)
        else:
            after = apply_operations(before, value)
            try:
                decoded = model.decode(after)
            except DecodeError as error:
                raise api_errors.internal(str(error)) from None
            if decoded.problems and model.typed:
                raise api_errors.internal(f"strict decoding error: {', '.join(decoded.problems)}")
        if deep_equal(before, after):
            return
        if not self._review.connected:
            after = model.default(model.decode(after).obj, nulls=True)
        await self._views.put(after, invocation.served)
