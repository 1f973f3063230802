"""Match conditions of policies."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from opsdk.apiserver.admission.policies.compiled_policy import CompiledPolicy
from opsdk.apiserver.admission.policies.match_conditions import conditions_hold
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks


@pytest.mark.realtime
async def test_the_first_request_compiles_a_large_policy_outside_the_event_loop() -> None:
    """The loop serves others while 1,500 expressions are compiled, and the policy keeps the result."""
    validations = [{"expression": f"object.metadata.name != 'forbidden-{number}'"} for number in range(1_500)]
    policy = AdmissionPolicy({"metadata": {"name": "p"}, "spec": {"validations": validations}})
    running = asyncio.ensure_future(conditions_hold(policy, AuthorizerChecks(cast("Any", None)), {}))
    turns = 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert await running is True
    compiled = policy.compile_with(CompiledPolicy)
    assert len(compiled.validations) == 1_500
    assert policy.compile_with(CompiledPolicy) is compiled
