"""Real binaries and existing clusters; supervision is tested with stand-in executables."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import SkipTest

import pytest
from etcd_cluster import free_port

from envtest.external import clusters, kubectl
from envtest.external.clusters import ExistingCluster, RealBinaries, TargetKind, apiserver_command, etcd_command
from envtest.external.processes import Process, ProcessOptions
from opsdk.api.core.v1 import Namespace
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, ForbiddenError
from tests.envtest.plane.test_install import definition

ROOT = Path(__file__).resolve().parents[3]
QUICK = ProcessOptions(start_timeout=10, stop_timeout=1)
pytestmark = pytest.mark.realtime

HEALTHY = """#!{python}
import http.server, signal, subprocess, sys, time
options = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:] if "=" in a)
{before}
port = int(options["listen-client-urls"].rsplit(":", 1)[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status})
        self.end_headers()
    def log_message(self, *args):
        pass
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

SERVER = """#!{python}
# What kube-apiserver would be: our own server, behind its flags.
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from envtest.environment import Environment
from envtest.plane.pki import PKI
from opsdk.http.server.server import ServeOptions, Tls, WebServer
options = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:] if "=" in a)
{before}
assert Path(options["service-account-signing-key-file"]).exists()
assert options["etcd-servers"].startswith("http://127.0.0.1:")
async def main():
    pki = PKI(clients=Path(options["client-ca-file"]).read_bytes())
    async with Environment(pki=pki) as env:
        tls = Tls(
            cert_file=Path(options["tls-cert-file"]),
            key_file=Path(options["tls-private-key-file"]),
            client_ca_file=Path(options["client-ca-file"]),
        )
        async with WebServer(env.server.app, ServeOptions(port=int(options["secure-port"]), tls=tls)):
            await asyncio.Event().wait()
asyncio.run(main())
"""


def executable(path: Path, text: str, *, before: str = "", status: int = 200) -> Path:
    """A script that can be run."""
    filled = text.replace("{python}", sys.executable).replace("{before}", before).replace("{status}", str(status))
    path.write_text(filled.replace("{root!r}", repr(str(ROOT))))
    path.chmod(0o755)
    return path


def alive(pid: int) -> bool:
    """Whether a process is there, zombies aside."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def etcd(tmp_path: Path, *, options: ProcessOptions = QUICK, before: str = "", status: int = 200) -> Process:
    """A process that pretends to be etcd."""
    binary = executable(tmp_path / "etcd", HEALTHY, before=before, status=status)
    port = free_port()
    from opsdk.rest.config import RestConfig

    config = RestConfig(host=f"http://127.0.0.1:{port}")
    return Process(
        etcd_command(binary, tmp_path, config.host),
        directory=tmp_path,
        healthy=lambda: clusters.answers(config, "/health"),
        options=options,
    )


# ------------------------------------------------------------------ processes
async def test_a_process_starts_and_stops(tmp_path: Path) -> None:
    """A process is healthy when `start` returns, and gone when `stop` returns."""
    process = etcd(tmp_path)
    assert process.pid == 0
    await process.start()
    pid = process.pid
    assert alive(pid)
    assert process.last_words() == "serving"
    await process.stop()
    await process.stop()
    assert not alive(pid)
    assert process.pid == 0


async def test_an_early_exit_is_an_error_with_its_output(tmp_path: Path) -> None:
    """A process that ends early is an error with its exit code and last output."""
    process = etcd(tmp_path, before="sys.exit('no space left on device')")
    with pytest.raises(ConfigError, match="etcd ended with 1 before it served: no space left"):
        await process.start()
    assert process.pid == 0


async def test_one_that_never_becomes_healthy_is_stopped(tmp_path: Path) -> None:
    """A process that is not healthy within the start timeout is stopped."""
    process = etcd(tmp_path, status=500, options=ProcessOptions(start_timeout=1, stop_timeout=1))
    with pytest.raises(ConfigError, match="etcd was not healthy within 1 s: serving"):
        await process.start()
    assert process.pid == 0


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """A process that ignores SIGTERM is killed with its children after the stop timeout."""
    child = (
        "child = subprocess.Popen(['sleep', '600']); open(options['data-dir'] + '/child', 'w').write(str(child.pid))"
    )
    process = etcd(tmp_path, before=f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {child}")
    await process.start()
    pid, grandchild = process.pid, int((tmp_path / "child").read_text())
    begin = time.monotonic()
    await process.stop()
    assert time.monotonic() - begin > 0.9
    await asyncio.sleep(0.1)
    assert not alive(pid)
    assert not alive(grandchild)


async def test_a_killed_process_can_be_stopped(tmp_path: Path) -> None:
    """Stopping a process that is already dead is not an error."""
    process = etcd(tmp_path)
    await process.start()
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert process.pid == 0
    await process.stop()


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    """A cancelled start leaves no process, even if its stop is cancelled too."""
    process = etcd(tmp_path, status=500, before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    starting = asyncio.ensure_future(process.start())
    await asyncio.sleep(0.5)
    pid = process.pid
    starting.cancel()
    await asyncio.sleep(0.05)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_child_processes_die_with_the_parent(tmp_path: Path) -> None:
    """Child processes end when the parent is killed with SIGKILL."""
    binary = executable(tmp_path / "etcd", HEALTHY)
    code = f"""
import asyncio
from pathlib import Path
from envtest.external import clusters
from envtest.external.processes import Process, ProcessOptions
async def healthy(): return True
async def main():
    command = clusters.etcd_command(Path({str(binary)!r}), Path({str(tmp_path)!r}), "http://127.0.0.1:{free_port()}")
    process = Process(command, directory=Path({str(tmp_path)!r}), healthy=healthy, options=ProcessOptions())
    await process.start()
    print(process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.05)
    raise AssertionError("the child lives on")


async def test_what_cannot_be_run_says_so(tmp_path: Path) -> None:
    """A missing or non-executable file is an error that names it."""
    (tmp_path / "etcd").write_text("")

    async def healthy() -> bool:
        return True

    process = Process([str(tmp_path / "etcd")], directory=tmp_path, healthy=healthy, options=QUICK)
    with pytest.raises(ConfigError, match="cannot be run"):
        await process.start()
    with pytest.raises(ConfigError, match="does not exist: set KUBEBUILDER_ASSETS"):
        await RealBinaries(etcd=tmp_path / "none", apiserver=tmp_path / "none").start()


# ------------------------------------------------------------------ a control plane of two
async def test_a_control_plane_of_real_processes(tmp_path: Path) -> None:
    """Real processes serve admin certificates, users, definitions and kubectl, and leave nothing behind."""
    plane = RealBinaries(
        etcd=executable(tmp_path / "etcd", HEALTHY),
        apiserver=executable(tmp_path / "kube-apiserver", SERVER),
        crds=[definition("things")],
        options=ProcessOptions(start_timeout=20, stop_timeout=5),
    )
    with pytest.raises(ConfigError, match="not started yet"):
        _ = plane.config
    async with plane:
        pids = [p.pid for p in plane.processes]
        assert all(map(alive, pids))
        async with Cluster(plane.config) as cluster:
            assert "default" in [n.metadata.name for n in await cluster.uncached.list(Namespace)]
        async with Cluster(plane.add_user("bob").config) as cluster:
            with pytest.raises(ForbiddenError, match='User "bob"'):
                await cluster.uncached.list(Namespace)
        if kubectl.find() is not None:
            assert "things.x.example.com" in str(await plane.kubectl("get", "crds", "-o", "name"))
        with pytest.raises(SkipTest, match="snapshot needs the embedded server; this run is on real binaries"):
            plane.snapshot()
    assert not any(map(alive, pids))


@pytest.mark.slow
async def test_ports_that_clash_are_tried_again(tmp_path: Path) -> None:
    """A clash of ports is retried at most five times; processes of a failed attempt are stopped."""
    flag = str(tmp_path / "once")
    once = f"import os; flag = {flag!r}\nif not os.path.exists(flag): open(flag, 'w'); sys.exit('in use')"
    plane = RealBinaries(
        etcd=executable(tmp_path / "etcd", HEALTHY, before=once),
        apiserver=executable(tmp_path / "kube-apiserver", SERVER),
        options=ProcessOptions(start_timeout=20, stop_timeout=5),
    )
    async with plane:
        assert len(plane.processes) == 2
    count = "open({!r}, 'a').write('x'); sys.exit('address already in use')".format(str(tmp_path / "tries"))
    plane = RealBinaries(
        etcd=executable(tmp_path / "etcd", HEALTHY),
        apiserver=executable(tmp_path / "kube-apiserver", SERVER, before=count),
        options=QUICK,
    )
    with pytest.raises(ConfigError, match=r"did not start: kube-apiserver ended with 1 .*address already in use"):
        await plane.start()
    assert (tmp_path / "tries").read_text() == "xxxxx"
    assert plane.processes == []
    await plane.aclose()


# ------------------------------------------------------------------ what is wanted
async def test_the_environment_says_what_is_wanted() -> None:
    """The environment variables of Go's envtest select the target."""
    assert clusters.target_kind({}) is TargetKind.EMBEDDED
    assert clusters.target_kind({"USE_EXISTING_CLUSTER": "true", "KUBEBUILDER_ASSETS": "/x"}) is TargetKind.EXISTING
    assert clusters.target_kind({"USE_EXISTING_CLUSTER": "false"}) is TargetKind.EMBEDDED
    assert clusters.target_kind({"KUBEBUILDER_ASSETS": "/x"}) is TargetKind.BINARIES
    assert clusters.target_kind({"TEST_ASSET_ETCD": "/x"}) is TargetKind.BINARIES
    own = {"KUBEBUILDER_ASSETS": "/x", "TEST_ASSET_KUBE_APISERVER": "/y/k"}
    assert clusters.asset("kube-apiserver", own) == Path("/y/k")
    assert clusters.asset("etcd", own) == Path("/x/etcd")
    assert clusters.asset("etcd", {}) == Path("/usr/local/kubebuilder/bin/etcd")
    assert kubectl.find({"TEST_ASSET_KUBECTL": "/y/kubectl", "PATH": ""}) == Path("/y/kubectl")
    assert isinstance(clusters.target(TargetKind.EXISTING), ExistingCluster)
    assert isinstance(clusters.target(TargetKind.BINARIES), RealBinaries)


async def test_timeouts_are_durations() -> None:
    """Timeouts are Go durations or seconds."""
    names = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"
    created = clusters.process_options(dict(zip(names, ("1m30s", "500ms"), strict=True)))
    assert (created.start_timeout, created.stop_timeout, created.attach_output) == (90, 0.5, False)
    assert clusters.process_options({}) == ProcessOptions()
    assert clusters.process_options({names[0]: "7"}).start_timeout == 7
    assert clusters.process_options({"KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT": "true"}).attach_output
    for bad in ("soon", "3 s", "1m30", "-1s"):
        with pytest.raises(ConfigError, match="is not a duration"):
            clusters.process_options({names[0]: bad})


async def test_the_api_server_gets_envtests_flags(tmp_path: Path) -> None:
    """The API server starts with the flags of controller-runtime's envtest."""
    flags = apiserver_command(Path("k"), tmp_path, 6443, "http://e")
    for flag in (
        "--etcd-servers=http://e",
        "--secure-port=6443",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount",
        "--authorization-mode=RBAC",
    ):
        assert flag in flags


async def test_an_existing_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig's cluster is used; users are impersonated, and installed objects stay."""
    from envtest.environment import Environment

    async with Environment() as env:
        web = await env.serve()
        (tmp_path / "config").write_text(env.kubeconfig(web))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        async with ExistingCluster(crds=[definition("things")]) as cluster:
            assert cluster.config.host == web.url
            async with Cluster(cluster.add_user("bob", groups=["devs"]).config) as bobs:
                with pytest.raises(ForbiddenError, match='User "bob"'):
                    await bobs.uncached.list(Namespace)
            if kubectl.find() is not None:
                assert "default" in str(await cluster.kubectl("get", "namespaces"))
            with pytest.raises(SkipTest, match="faults needs the embedded server; this run is on an existing cluster"):
                _ = cluster.faults
            with pytest.raises(AttributeError):
                _ = cluster.nonsense
        groups = [g.group for g in env.plane.extensions.groups()]
        assert groups == ["x.example.com"]
