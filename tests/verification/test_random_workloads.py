"""Laws of workloads from random structural schemas."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_caller import Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
from tests.verification.served_workloads import DEFINITIONS, WorkloadRun
from tests.verification.structural_schemas import random_definition, specs


@pytest.mark.slow
def test_server_agrees_with_random_workloads() -> None:
    """A server admits and refuses each operation on a random schema as its class says."""
    numbers = count()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        env = Environment()
        runner.run(env.__aenter__())
        call = Caller(env)

        async def check(spec: JsonObject, seed: int) -> None:
            definition = random_definition(spec, next(numbers))
            created = await call("POST", DEFINITIONS, definition)
            assert created.status == 201, created.json
            try:
                workload = generate_workload(definition, options=WorkloadOptions(seed=seed, operations=60))
            except NoCustomResourceError:
                return
            finally:
                stored = await call("GET", f"{DEFINITIONS}/{definition['metadata']['name']}")
                assert stored.status == 200
            await WorkloadRun(call, definition).run(workload)

        @settings(max_examples=150)
        @given(specs, st.integers(0, 3))
        def agrees(spec: JsonObject, seed: int) -> None:
            runner.run(check(spec, seed))

        agrees()
        runner.run(env.__aexit__(None, None, None))


@pytest.mark.slow
@given(specs, st.integers(0, 40))
def test_operations_continue_each_other_within_the_budget(spec: JsonObject, operations: int) -> None:
    """Each operation begins where the last admitted one ended, and there are not more than allowed."""
    try:
        workload = generate_workload(random_definition(spec), options=WorkloadOptions(operations=operations))
    except NoCustomResourceError:
        return
    assert len(workload.operations) <= operations
    state: Any = None
    for operation in workload.operations:
        assert operation.before == state
        state = state if operation.value_class.name == "BEYOND" else operation.after


@given(specs, st.integers(0, 5))
@pytest.mark.slow
def test_equal_seeds_give_equal_bytes(spec: JsonObject, seed: int) -> None:
    """Two workloads of one seed are equal; another seed has the same operations at most in another order."""
    options = WorkloadOptions(seed=seed, operations=30)
    try:
        first = msgspec.json.encode(generate_workload(random_definition(spec), options=options))
    except NoCustomResourceError:
        return
    assert msgspec.json.encode(generate_workload(random_definition(spec), options=options)) == first


_DIGEST = """
import hashlib, msgspec
from tests.verification.public_definitions import PUBLIC
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
for one in PUBLIC:
    workload = generate_workload(one, options=WorkloadOptions(seed=3))
    print(hashlib.sha256(msgspec.json.encode(workload)).hexdigest())
"""


@pytest.mark.slow
def test_equal_seeds_give_equal_bytes_in_any_process() -> None:
    """Processes with different hash seeds generate equal bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (0, 1, 2)
    }
    assert len(outputs) == 1
