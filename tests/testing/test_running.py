"""`running` tells why an operator is not ready."""

from __future__ import annotations

import pytest

from envtest import Environment
from opsdk import GroupVersionKind, Model, Object, Operator, Request
from opsdk.builder.arguments import WatchSpec
from opsdk.testing.running import OperatorTimeoutError, running


class Unknown(Object[Model, None]):
    """A kind that no server serves."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Unknown")


async def test_the_error_has_the_reason_of_each_failed_check(k8s_env: Environment) -> None:
    """The error of a start in vain names each failed check with its reason: a test is not a client from outside."""
    operator = Operator("watcher")

    @operator.reconciler(name="watcher", watches=[WatchSpec(kind=Unknown, handler=lambda obj: [])])
    async def reconcile(request: Request) -> None: ...

    with pytest.raises(OperatorTimeoutError) as caught:
        async with running(operator, k8s_env, ready_within=5):
            raise AssertionError
    text = str(caught.value)
    assert "controller-watcher: " in text
    assert "does not serve tests.opsdk.dev/v1, Kind=Unknown" in text
    assert "caches-synced" not in text
    assert "withheld" not in text
