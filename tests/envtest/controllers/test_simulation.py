"""Laws of `envtest.controllers.simulation` and `envtest.controllers.controller`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envtest.controllers.simulation import CONTROLLERS, selected_controllers
from envtest.environment import Environment
from opsdk.errors import ConfigError
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, deployment, settle


def test_controllers_are_selected_by_name() -> None:
    """Controllers are selected by name, all with ``cluster``, or none; unknown names are errors."""
    assert selected_controllers("none") == frozenset()
    assert selected_controllers("cluster") == CONTROLLERS
    assert selected_controllers("kubelet,job") == selected_controllers(["job", "kubelet"]) == {"kubelet", "job"}
    with pytest.raises(ConfigError, match="no simulated controller is called 'kublet'"):
        selected_controllers("kublet")


async def test_none_by_default() -> None:
    """Without controllers, no object changes unless a client writes it."""
    async with Environment() as env:
        api = Kubectl(env)
        created = await api.create(f"{APPS}/deployments", deployment("web"))
        await settle(60)
        assert await api.get(f"{APPS}/deployments/web") == created
        assert await api.names("/api/v1/nodes") == []


async def test_only_selected_controllers_run() -> None:
    """Only the selected controllers run: a pod without scheduler and kubelet stays Pending."""
    async with Environment(controllers=["deployment", "replicaset"]) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle()
        [pod] = await api.items(f"{CORE}/pods")
        assert pod["status"]["phase"] == "Pending"
        assert "nodeName" not in pod["spec"]


async def test_takes_up_what_is_there() -> None:
    """Objects that were there before the controllers are looked after too."""
    async with Environment() as env:
        await Kubectl(env).create(f"{APPS}/deployments", deployment("web"))
        storage = env.plane.storage
        async with Environment(controllers="cluster", storage=storage) as other:
            await settle()
            current = await Kubectl(other).get(f"{APPS}/deployments/web")
            assert current["status"]["availableReplicas"] == 1


async def test_sees_more_than_a_watch_can_hold() -> None:
    """An informer whose watch overflowed reads the present state and continues."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        env.plane.storage.watch_limit = 3  # type: ignore[attr-defined]
        env.plane.storage.end_watches()
        await settle()
        for number in range(30):
            await api.create(f"{APPS}/deployments", deployment(f"d{number}"))
        await settle()
        assert len(await api.names(f"{CORE}/pods")) == 30
        for number in range(30):
            await api.delete(f"{APPS}/deployments/d{number}")
        await settle()
        assert await api.names(f"{CORE}/pods") == []


def test_names_of_the_real_ones() -> None:
    """kube-controller-manager's spellings mean the same, and a name can be left out."""
    assert selected_controllers("job-controller,podgc,garbagecollector") == {
        "job",
        "pod-garbage-collector",
        "garbage-collector",
    }
    assert selected_controllers("*,-cronjob-controller") == CONTROLLERS - {"cronjob"}
    with pytest.raises(ConfigError, match="'cronjobs'"):
        selected_controllers("cluster,-cronjobs")


def test_nothing_is_loaded_that_is_not_wanted() -> None:
    """A bare server does not even load the code of controllers."""
    program = "import sys, envtest.environment; print(*(m for m in sys.modules if 'envtest.controllers.' in m))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    few = {"objects", "ports", "programs", "stages"}
    assert {name.rpartition(".")[2] for name in loaded.split()} <= few


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
async def test_each_alone(name: str) -> None:
    """Every controller can run without the others."""
    async with Environment(controllers=name) as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web"))
        await settle(60)
        [controller] = env._simulated.controllers
        assert controller.name == name
