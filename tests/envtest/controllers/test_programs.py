"""Laws of `envtest.controllers.programs`."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from envtest.controllers.programs import SimulatedProgram, missing_image, program_of
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, settle

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def pod(*containers: JsonObject, job: bool = False) -> JsonObject:
    """A pod, perhaps of a job."""
    owners = [{"kind": "Job", "name": "j", "uid": "u", "controller": True}] if job else []
    return {"metadata": {"name": "p", "ownerReferences": owners}, "spec": {"containers": list(containers)}}


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["sleep", "30"], SimulatedProgram(30)),
        (["/bin/sleep", "1m", "0.5"], SimulatedProgram(60.5)),
        (["sleep", "infinity"], SimulatedProgram(math.inf)),
        (["sleep", "soon"], SimulatedProgram(0, 1)),
        (["false"], SimulatedProgram(0, 1)),
        (["/bin/true"], SimulatedProgram(0)),
        (["sh", "-c", "exit 3"], SimulatedProgram(0, 3)),
        (["/bin/sh", "-ec", "echo hi; sleep 2\nsleep 3 && exit 7; sleep 100"], SimulatedProgram(5, 7)),
        (["sh", "-c", "false && sleep 5"], SimulatedProgram(0, 1)),
        (["sh", "-c", "false; sleep 5"], SimulatedProgram(5)),
        (["sh", "-c", "while true; do sleep 1; done"], None),
        (["sh", "-c", "sleep $N"], None),
        (["sh", "-c", "echo 'while you wait' && sleep 4"], SimulatedProgram(4)),
        (["sh", "-c", "echo done"], None),
        (["nginx", "-g", "daemon off;"], None),
        (["sh", "-c"], None),
        (["sh", "-c", "sleep 'open"], None),
        ([], None),
    ],
)
def test_what_a_command_says(command: list[str], program: SimulatedProgram | None) -> None:
    """The seconds of sleeps add up, and the last exit code counts; other commands are not interpreted."""
    assert program_of(pod({"image": "busybox", "command": command[:1], "args": command[1:]})) == program


def test_a_pod_ends_with_its_last_container() -> None:
    """Unknown programs run on, and end at once in pods of jobs; one failed container fails the pod."""
    sleep, fail, unknown = {"args": ["sleep", "5"]}, {"command": ["false"]}, {"image": "nginx"}
    assert program_of(pod(sleep, fail)) == SimulatedProgram(5, 1)
    assert program_of(pod(sleep, unknown)) == SimulatedProgram(math.inf)
    assert program_of(pod(sleep, unknown, job=True)) == SimulatedProgram(5)
    assert program_of(pod(unknown, job=True)) is None
    assert program_of(pod({"image": "registry.k8s.io/pause:3.10"}, job=True)) == SimulatedProgram(math.inf)


@pytest.mark.parametrize(
    ("image", "missing"),
    [
        ("webserver:404", True),
        ("invalid-image", True),
        ("invalid.registry.k8s.io/x/alpine:3.1", True),
        ("example.com/does-not-exist", True),
        ("Not An Image", True),
        ("nginx:1.27", False),
        ("example.com:4040/nginx", False),
        ("validator", False),
    ],
)
def test_images_that_say_they_do_not_exist(image: str, missing: bool) -> None:
    """Names of images that tests and tutorials use for failed pulls."""
    assert missing_image(pod({"image": image})) == (image if missing else "")


def _job(name: str, container: JsonObject, **spec: Any) -> JsonObject:
    template = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", **container}]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": template}, **spec}}


async def test_jobs_run_fail_and_wait() -> None:
    """A job takes as long as its pods sleep, fails with them, and waits for an image that is not there."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(JOBS, _job("sleeps", {"command": ["sleep", "30"]}))
        await api.create(JOBS, _job("fails", {"command": ["sh", "-c", "exit 3"]}, backoffLimit=0))
        await api.create(JOBS, _job("stays", {"image": "registry.k8s.io/pause:3.10"}))
        await api.create(JOBS, _job("absent", {"image": "webserver:404"}))
        await api.create(JOBS, _job("unnamed", {"image": "Not An Image"}))
        await asyncio.sleep(20)
        statuses = {
            name: (await api.get(f"{JOBS}/{name}"))["status"] for name in ("sleeps", "fails", "stays", "absent")
        }
        assert (statuses["sleeps"]["active"], statuses["sleeps"]["ready"]) == (1, 1)
        assert statuses["fails"]["failed"] == 1
        await asyncio.sleep(20)
        assert (await api.get(f"{JOBS}/sleeps"))["status"]["succeeded"] == 1
        assert (await api.get(f"{JOBS}/stays"))["status"]["active"] == 1
        [waiting] = [p for p in await api.items(f"{CORE}/pods") if p["metadata"]["name"].startswith("absent")]
        assert waiting["status"]["phase"] == "Pending"
        assert waiting["status"]["containerStatuses"][0]["state"]["waiting"] == {
            "reason": "ImagePullBackOff",
            "message": 'Back-off pulling image "webserver:404"',
        }
        [unnamed] = [p for p in await api.items(f"{CORE}/pods") if p["metadata"]["name"].startswith("unnamed")]
        assert unnamed["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "InvalidImageName"
        codes = [
            p["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
            for p in await api.items(f"{CORE}/pods")
            if p["metadata"]["name"].startswith("fails")
        ]
        assert codes == [3]


async def test_containers_that_end_are_restarted_by_their_policy() -> None:
    """A pod that is always restarted runs `sleep` again; one that never is, succeeds."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        for policy in ("Always", "Never"):
            spec = {"restartPolicy": policy, "containers": [{"name": "c", "image": "i", "args": ["sleep", "60"]}]}
            meta = {"name": policy.lower()}
            await api.create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await settle(90)
        again, done = await api.get(f"{CORE}/pods/always"), await api.get(f"{CORE}/pods/never")
        assert (again["status"]["phase"], again["status"]["containerStatuses"][0]["restartCount"]) == ("Running", 1)
        assert done["status"]["phase"] == "Succeeded"
