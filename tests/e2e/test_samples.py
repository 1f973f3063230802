"""The checked-in manifests of the samples, the command that writes them, and the real kubectl."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from processes import alarms

from envtest import Environment
from opsdk import Client
from opsdk.api.admissionregistration.v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from opsdk.api.core.v1 import Pod
from opsdk.cli.__main__ import main
from opsdk.testing.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ["application", "database", "secret-copier", "website"]


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_manifests_are_generated(sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file of ``config/`` is what the command writes, also over its own files; nothing else is installed."""
    monkeypatch.chdir(ROOT / "samples" / sample)
    assert main(["generate", "manifests", "--check"]) == 0
    first = []
    for _ in range(2):
        assert main(["generate", "manifests", "--folder", str(tmp_path)]) == 0
        first.append({path: path.read_bytes() for path in tmp_path.rglob("*.yaml")})
    assert first[0] == first[1]
    installed = {path.relative_to("config") for path in Path("config").rglob("*.yaml")}
    written = {path.relative_to(tmp_path) for path in first[0]}
    assert {path for path in installed if path.parts[0] != "samples"} == written


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.k8s(controllers="cluster")
@pytest.mark.parametrize("sample", SAMPLES)
async def test_kubectl_installs_a_sample(sample: str, k8s_env: Environment, k8s_client: Client) -> None:
    """The pods pass the restricted security standard of their namespace; a second run changes nothing."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: this test installs the sample with it")
    folder = ROOT / "samples" / sample / "config"
    await k8s_env.kubectl("apply", "-k", str(folder))
    namespace = f"{sample}-system"

    async def run() -> bool:
        pods = await k8s_client.list(Pod, namespace=namespace)
        return len(pods) == 2 and all(pod.status.phase == "Running" for pod in pods)

    await eventually(run)
    again = await k8s_env.kubectl("apply", "-k", str(folder))
    changed = {
        line.split()[0].partition("/")[0] for line in again.stdout.splitlines() if not line.endswith("unchanged")
    }
    # Its selector has the patch strategy replace, so kubectl's patch always has it.
    assert changed == {"poddisruptionbudget.policy"}
    assert len(again.stdout.splitlines()) > len(changed)
    # No operator runs in these pods, so nothing serves the webhooks.
    for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
        await k8s_client.delete_all_of(kind)
    for example in sorted((folder / "samples").iterdir()):
        for document in yaml.safe_load_all(example.read_text()):
            await k8s_env.kubectl("create", "-f", "-", stdin=yaml.safe_dump(document))


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("sample", ["greeter", *SAMPLES])
def test_the_commands_of_the_readme(sample: str, tmp_path: Path) -> None:
    """``opsdk dev`` in one shell, kubectl in the other: every line works as it stands, and no log line alarms."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: the README uses it")
    folder = tmp_path / sample
    shutil.copytree(ROOT / "samples" / sample, folder, ignore=shutil.ignore_patterns("__pycache__", ".opsdk"))
    text = (folder / "README.md").read_text().partition("## Try it")[2]
    lines = [line.strip() for line in text.partition("\n#")[0].splitlines() if line.startswith("    ")]
    start = next(number for number, line in enumerate(lines) if "opsdk dev" in line)
    ports = [free_port(), free_port()]
    shells = ["\n".join(lines[1 : start + 1]), "\n".join(lines[start + 1 :])]
    shells[0] = shells[0].replace("opsdk dev", f"exec opsdk dev --webhook-port {ports[0]}")
    for port, program in (("8100", "fake_service.py"), ("8200", "fake_dns.py")):
        # A reader types the next line later than a loaded machine runs it.
        until_open = f"until (exec 3<>/dev/tcp/127.0.0.1/{ports[1]}) 2>/dev/null; do sleep 0.1; done"
        started = f"{program} {ports[1]} &\n{until_open}"
        shells[0] = shells[0].replace(port, str(ports[1])).replace(f"{program} &", started)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    log = folder / "log"
    with log.open("wb") as output:
        first = subprocess.Popen(
            ["bash", "-c", shells[0]], cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 60
            while "started in" not in log.read_text():
                assert first.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            second = ["bash", "-e", "-c", shells[1]]
            done = subprocess.run(
                second, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=150
            )
            assert done.returncode == 0, f"{done.stdout}{done.stderr}{log.read_text()}"
        finally:
            # The operator first: it is still working with the service.
            first.terminate()
            first.wait(40)
            with suppress(ProcessLookupError):
                os.killpg(first.pid, signal.SIGTERM)
    assert alarms(f"{log.read_text()}{done.stdout}{done.stderr}") == []


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
