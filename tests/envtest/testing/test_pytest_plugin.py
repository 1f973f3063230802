"""The fixtures, in separate pytest runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.envtest.external.test_clusters import HEALTHY, SERVER, alive, executable

SUITE = """
import pytest
from opsdk.api.apps.v1 import ControllerRevision
from opsdk.api.core.v1 import ConfigMap, Container, Namespace, Pod, PodSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ForbiddenError, ServiceUnavailableError
from envtest.testing.effects import Fail


def named(name, namespace="default"):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))


@pytest.mark.parametrize("number", range(3))
async def test_isolated(number, k8s_client):
    assert len(await k8s_client.list(ConfigMap, namespace="default")) == 0
    await k8s_client.create(named("a"))


async def test_namespace(k8s_client, k8s_namespace):
    assert k8s_namespace.startswith("test-namespace-")
    await k8s_client.create(named("a", k8s_namespace))


async def test_user(k8s_user, k8s_env):
    bob = k8s_user("bob", groups=["devs"])
    async with Cluster(bob.config) as cluster:
        with pytest.raises(ForbiddenError):
            await cluster.uncached.list(ConfigMap)
    assert [r.code for r in k8s_env.audit.select(user="bob", resource="configmaps")] == [403]


@pytest.mark.k8s(controllers="cluster")
async def test_profile(k8s_client, k8s_env):
    spec = PodSpec(containers=[Container(name="c", image="i")])
    await k8s_client.create(Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=spec))
    await k8s_env.eventually(lambda: k8s_client.get(Pod, "default/p"), lambda p: p.status.phase == "Running", within=60)


@pytest.mark.k8s(faults=[(Fail(503), {"verb": "list", "resource": "configmaps"})], seed=3)
async def test_faults(k8s_config, k8s_client):
    await k8s_client.list(Namespace)
    with pytest.raises(ServiceUnavailableError):
        await k8s_client.list(ConfigMap)


async def test_definitions(k8s_env):
    listed = await k8s_env.eventually(lambda: k8s_env.plane.extensions.groups())
    assert [g.group for g in listed] == ["x.example.com"]
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.example.com}
spec:
  group: x.example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


def run(directory: Path, suite: str, *args: str, env: dict[str, str] | None = None) -> str:
    """The output of pytest over one file."""
    (directory / "test_it.py").write_text(suite)
    (directory / "crds").mkdir(exist_ok=True)
    (directory / "crds/thing.yaml").write_text(CRD)
    (directory / "pytest.ini").write_text("[pytest]\nk8s_crd_paths = crds\naddopts = --import-mode=importlib\n")
    command = [sys.executable, "-m", "pytest", "-p", "envtest.testing.pytest_plugin", "-p", "no:cacheprovider", *args]
    root = str(Path(__file__).resolve().parents[3])
    environment = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin", "HOME": str(directory), **(env or {})}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return done.stdout + done.stderr


BROKEN = """

async def test_broken(k8s_client, k8s_namespace):
    await k8s_client.create(named('culprit', k8s_namespace))
    revision = ControllerRevision(metadata=named('r', k8s_namespace).metadata, revision=1, data={"n": "y"})
    await k8s_client.create(revision)
    assert False


async def test_damaged(k8s_env, monkeypatch):
    monkeypatch.setattr(type(k8s_env.plane.storage), "snapshot", None)
    assert "the failure" == ""
"""
VIRTUAL = ("-p", "opsdk.testing.plugin")


@pytest.mark.slow
def test_every_fixture_and_mark(tmp_path: Path) -> None:
    """Fixtures and marks set isolation, namespaces, users, controllers, faults and definitions; unknown ones fail."""
    out = run(tmp_path, SUITE, *VIRTUAL, "--strict-markers", "-W", "error")
    assert "8 passed" in out, out


@pytest.mark.slow
def test_a_failure_shows_requests_and_objects(tmp_path: Path) -> None:
    """A failed test shows the last requests and the objects in its namespace; a report that fails hides nothing."""
    suite = SUITE + BROKEN
    out = run(tmp_path, suite, *VIRTUAL, "-k", "broken or isolated or damaged")
    assert "2 failed, 3 passed" in out, out
    assert "name: culprit" in out
    assert '"n": "y"' in out  # of the ControllerRevision, whose data keeps its text
    assert "assert 'the failure' == ''" in out
    assert "this report failed: TypeError" in out
    assert "envtest: last requests" in out
    assert "201 admin: create /api/v1/namespaces/test-broken-" in out
    assert "envtest: objects in test-broken-" in out
    assert "name: culprit" in out
    assert "managedFields" not in out


@pytest.mark.slow
def test_the_option_chooses_the_version(tmp_path: Path) -> None:
    """The option ``--kubernetes`` is for every test and the mark for one; the first objects are the version's."""
    suite = """
import pytest


async def test_all(k8s_env):
    assert k8s_env.kubernetes == "1.37"
    assert k8s_env.stored("apiregistration.k8s.io/apiservices/v1.storagemigration.k8s.io")


@pytest.mark.k8s(kubernetes="1.35")
async def test_one(k8s_env):
    assert k8s_env.kubernetes == "1.35"
    assert not k8s_env.stored("apiregistration.k8s.io/apiservices/v1.storagemigration.k8s.io")
"""
    out = run(tmp_path, suite, *VIRTUAL, "--kubernetes", "1.37")
    assert "2 passed" in out, out
    out = run(tmp_path, suite, *VIRTUAL, "--kubernetes", "1.12")
    assert "Kubernetes 1.12 is older than the versions that envtest serves" in out, out


def test_plain_functions_get_a_hint(tmp_path: Path) -> None:
    """A plain test function that uses the server fixture fails with a hint: the server needs a loop."""
    out = run(tmp_path, "def test_plain(k8s_env):\n    pass\n")
    assert "test_plain uses the fixtures of envtest, so it has to be an async def" in out
    assert "1 error" in out


def test_on_other_clusters_the_rest_is_skipped(tmp_path: Path) -> None:
    """On other clusters, tests of embedded features are skipped with the name of the option."""
    out = run(tmp_path, SUITE, *VIRTUAL, "-rs", "-k", "profile or faults", env={"USE_EXISTING_CLUSTER": "true"})
    assert "2 skipped" in out, out
    assert "k8s(controllers=...) needs the embedded server; this run is on an existing cluster" in out
    assert "k8s(faults=...) needs the embedded server" in out


@pytest.mark.slow
def test_one_suite_runs_on_real_binaries(tmp_path: Path) -> None:
    """A suite runs on real binaries that start once and stop at the end; tests of embedded features skip."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    executable(
        binaries / "etcd",
        HEALTHY,
        before=f"import os; open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} ')",
    )
    executable(binaries / "kube-apiserver", SERVER)
    out = run(tmp_path, SUITE, *VIRTUAL, "-rs", env={"KUBEBUILDER_ASSETS": str(binaries)})
    # One server for all: the objects of the first test are there in the next ones.
    assert "2 failed, 2 passed, 4 skipped" in out, out
    assert "audit needs the embedded server; this run is on real binaries" in out
    assert "plane needs the embedded server; this run is on real binaries" in out
    [pid] = (tmp_path / "pids").read_text().split()
    assert not alive(int(pid))


@pytest.mark.slow
def test_workers_share_no_ports_and_files(tmp_path: Path) -> None:
    """Parallel runs share no port and no file."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(lambda folder: run(folder, SUITE, *VIRTUAL), folders))
    assert all("8 passed" in out for out in outs), outs


def test_the_plugin_is_light() -> None:
    """The plugin imports nothing of the server, because every pytest run loads it."""
    code = (
        "import sys, envtest.testing.pytest_plugin;"
        " print(len([m for m in sys.modules if m.startswith(('opsdk', 'envtest.'))]))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 2  # itself and its package


@pytest.mark.slow
def test_unittest_has_a_base_class(tmp_path: Path) -> None:
    """Each test of an `EnvironmentCase` starts with a new environment with the options of the class."""
    suite = """
import unittest
from envtest.testing.unittest import EnvironmentCase
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta


class Tests(EnvironmentCase):
    options = {"crd_paths": ["crds"]}

    async def test_one(self):
        self.assertEqual(0, len(await self.cluster.uncached.list(ConfigMap, namespace="default")))
        await self.cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

    test_two = test_one

    def test_config(self):
        self.assertTrue(self.config.token)


if __name__ == "__main__":
    unittest.main()
"""
    run(tmp_path, suite, "--collect-only")
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-W", "error", "test_it.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=200, check=False
    )
    assert "Ran 3 tests" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.realtime
async def test_kubectl_runs_as_the_admin_or_as_another_user() -> None:
    """The environment runs the installed kubectl as the admin or as another user."""
    from envtest.environment import Environment
    from envtest.external import kubectl
    from opsdk.errors import ConfigError

    if kubectl.find() is None:
        pytest.skip("no kubectl is installed")
    async with Environment() as env:
        assert "kube-system" in str(await env.kubectl("get", "namespaces"))
        manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        assert "configmap/a created" in str(await env.kubectl("apply", "-f", "-", stdin=manifest))
        bob = env.add_user("bob")
        with pytest.raises(ConfigError, match="Forbidden"):
            await env.kubectl("get", "configmaps", user=bob)
        assert (await env.kubectl("get", "configmaps", user=bob, check=False)).code == 1
