"""How a user tests an operator: the test is the example."""

from __future__ import annotations

import asyncio
import logging

import pytest

from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.testing.running import running
from tests.examples.kopf.ex09_testing import make_operator
from tests.examples.kopf.kinds import Example, ExampleSpec


async def test_resource_lifecycle(k8s_env: Environment, k8s_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The operator survives the creation and the deletion of an object, and logs its line."""
    caplog.set_level(logging.INFO)
    async with running(make_operator(), k8s_env):
        example = Example(metadata=ObjectMeta(name="a", namespace="default"), spec=ExampleSpec())
        await k8s_client.create(example)
        await asyncio.sleep(5)
        await k8s_client.delete(example)
        await asyncio.sleep(1)
    assert "something was logged here" in caplog.text
