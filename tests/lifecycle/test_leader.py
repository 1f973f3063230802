"""on_leader: once per term, on the replica that leads."""

from __future__ import annotations

import asyncio

import pytest

from envtest import Environment
from opsdk import Operator, OperatorOptions, UsageError
from opsdk.lifecycle.leader import on_leader
from opsdk.manager.manager import Manager


async def test_once_per_term(k8s_env: Environment) -> None:
    """Norman leader: the callback runs once in a term; another replica runs it when it takes over."""
    terms: list[str] = []

    def replica(name: str) -> Operator:
        operator = Operator("leading", OperatorOptions(leader_election=True))

        @operator.setup
        def setup(operator: Operator) -> None:
            async def begin() -> None:
                terms.append(name)

            on_leader(operator.manager, begin)

        return operator

    tasks = {name: asyncio.create_task(replica(name).start(k8s_env.config)) for name in ("one", "two")}
    await k8s_env.eventually(lambda: terms)
    await asyncio.sleep(120)
    assert len(terms) == 1
    tasks.pop(terms[0]).cancel()
    await k8s_env.eventually(lambda: len(terms) == 2, within=120)
    await asyncio.sleep(120)
    assert sorted(terms) == ["one", "two"]
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def test_a_plain_function_is_refused() -> None:
    """Bad input: a callback that is not async is named."""
    with pytest.raises(UsageError, match="is not async"):
        on_leader(Manager(), lambda: None)  # type: ignore[arg-type,return-value]
