"""Laws of `opsdk.testing.plugin` and `opsdk.testing.running`, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(directory: Path, suite: str, *args: str) -> str:
    """The output of pytest over one file."""
    (directory / "test_it.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-p", "opsdk.testing.plugin", "-p", "no:cacheprovider", *args]
    environment = {"PYTHONPATH": f"{ROOT}:{directory}", "PATH": "/usr/bin:/bin", "HOME": str(directory)}
    done = subprocess.run(
        [*command, "-W", "error", "-p", "envtest.testing.pytest_plugin"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout + done.stderr


FIXTURES = """
import asyncio
from contextvars import ContextVar
import pytest

SEEN = []
WHO = ContextVar("who", default="")


@pytest.fixture
async def base():
    await asyncio.sleep(3600)
    return asyncio.get_running_loop()


@pytest.fixture
async def server(base):
    async with asyncio.TaskGroup() as tasks:
        ticking = tasks.create_task(asyncio.sleep(10**6))
        WHO.set("fixture")
        yield base
        SEEN.append("closed")
        ticking.cancel()


async def test_one_loop(base, server):
    assert base is server is asyncio.get_running_loop()
    assert base.time() == 3600
    assert WHO.get() == "fixture"


async def test_a_new_loop_for_each_test(server):
    assert SEEN == ["closed"]
    assert server.time() == 3600


def test_sync_tests_may_use_them(server):
    assert server.time() == 3600


class TestMethods:
    @pytest.fixture
    async def mine(self):
        yield self

    async def test_the_instance_is_the_tests(self, mine):
        assert mine is self


@pytest.mark.realtime
async def test_realtime(request):
    assert asyncio.get_running_loop().time() != 0
"""


@pytest.mark.slow
def test_async_fixtures_share_the_loop_of_their_test(tmp_path: Path) -> None:
    """Coroutine and generator fixtures run in the test's task, in virtual time, and end with it."""
    out = run(tmp_path, FIXTURES)
    assert "5 passed" in out, out


BROKEN = """
import asyncio
import pytest


@pytest.fixture(scope="module")
async def wide():
    return 1


async def test_wide(wide):
    pass


@pytest.fixture
async def twice():
    yield 1
    yield 2


async def test_twice(twice):
    pass


@pytest.fixture
async def deadlock():
    await asyncio.Event().wait()


async def test_deadlock(deadlock):
    pass


@pytest.fixture
async def cleans():
    yield
    await asyncio.sleep(1)
    print("cleaned up")


async def test_stuck(cleans):
    await asyncio.Event().wait()


@pytest.fixture
async def leaky():
    asyncio.get_running_loop().create_task(asyncio.sleep(10**6), name="left over")


async def test_leaky(leaky):
    pass


async def test_leaks_itself():
    asyncio.get_running_loop().create_task(asyncio.sleep(10**6), name="forgotten")
"""


@pytest.mark.slow
def test_broken_fixtures_are_reported(tmp_path: Path) -> None:
    """Wider scopes, second yields, deadlocks and leaked tasks are errors of their test; fixtures still end."""
    out = run(tmp_path, BROKEN)
    assert "async fixtures must have the scope function" in out, out
    assert "the async fixture twice yields more than once" in out
    assert out.count("DeadlockError: deadlock") >= 2
    assert "cleaned up" in out
    assert "tasks left behind: left over" in out
    assert "tasks left behind: forgotten" in out
    assert "2 failed, 2 passed, 4 errors" in out


OPERATOR = """
import asyncio
import pytest
from opsdk import Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.testing.running import OperatorTimeoutError, running

COUNT = []


def operator():
    operator = Operator("labeller")

    @operator.reconciler(ConfigMap)
    async def reconcile(request):
        COUNT.append(request.key)

    return operator


@pytest.fixture
async def labeller(k8s_env):
    async with running(operator(), k8s_env) as op:
        yield op


async def test_ready(labeller, k8s_client):
    assert all(health.ready for health in labeller.cluster.cache.health())
    await k8s_client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    await asyncio.sleep(1)
    assert "default/a" in map(str, COUNT)


async def test_no_server(k8s_env):
    with pytest.raises(OperatorTimeoutError, match="is not ready after 5 s"):
        async with running(operator(), k8s_env.add_user("bob"), ready_within=5):
            raise AssertionError


async def test_a_failure_ends_the_block(k8s_env):
    op = operator()

    class Fails:
        async def start(self):
            await asyncio.sleep(10)
            raise ValueError("broken")

    op.setup(lambda o: o.manager.add(Fails()))
    with pytest.raises(ValueError, match="broken"):
        async with running(op, k8s_env):
            await asyncio.sleep(10**9)
    await asyncio.sleep(1)


async def test_a_bad_operator(k8s_env):
    with pytest.raises(Exception, match="has nothing to run"):
        async with running(Operator("empty"), k8s_env):
            raise AssertionError


async def test_an_error_of_the_block_comes_first(k8s_env):
    with pytest.raises(KeyError):
        async with running(operator(), k8s_env):
            raise KeyError("mine")


async def test_a_cancelled_block(k8s_env):
    async def block():
        async with running(operator(), k8s_env):
            await asyncio.sleep(10**9)

    task = asyncio.create_task(block())
    await asyncio.sleep(10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
"""


@pytest.mark.slow
def test_an_operator_runs_around_a_block(tmp_path: Path) -> None:
    """The block begins when the operator is ready; its errors are raised; it stops at the end."""
    out = run(tmp_path, OPERATOR)
    assert "6 passed" in out, out


TAKEN = """
import asyncio, time

async def test_virtual():
    started = time.monotonic()
    await asyncio.sleep(1000)
    assert time.monotonic() - started < 100
"""
RIVAL = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--{name}-mode", dest="{name}_mode", default=None)
    parser.addini("{name}_mode", "", default="strict")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asyncio", "anyio"])
@pytest.mark.parametrize("by_option", [True, False])
def test_another_plugin_in_auto_mode_is_an_error(name: str, by_option: bool, tmp_path: Path) -> None:
    """A plugin that takes all async tests runs them in real time, so the run ends at once and names the option."""
    (tmp_path / "rival.py").write_text(RIVAL.format(name=name))
    mode = [f"--{name}-mode=auto"] if by_option else ["-o", f"{name}_mode=auto"]
    text = run(tmp_path, TAKEN, "-p", "no:anyio", "-p", "rival", *mode)
    assert f"{name}_mode is auto" in text
    assert f'set {name}_mode = "strict"' in text
    assert "1 passed" in run(tmp_path, TAKEN, "-p", "no:anyio", "-p", "rival")
