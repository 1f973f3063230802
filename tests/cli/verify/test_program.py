"""``opsdk verify -- COMMAND``: real processes on a served API server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import foreign_operators
import pytest
import yaml
from foreign_operators import DEFINITION, NAMESPACE, Behaviour
from processes import until

from opsdk.cli.__main__ import main
from opsdk.structured_merge.value import JsonValue

SITE = {
    "apiVersion": "demo.opsdk.dev/v1",
    "kind": "Site",
    "metadata": {"name": "a", "namespace": NAMESPACE},
    "spec": {"text": "one"},
}
REFERENCE = "sites.demo.opsdk.dev/default/a"
STEPS: list[JsonValue] = [{"apply": "site.yaml"}, {"delete": REFERENCE}, {"apply": "site.yaml"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a definition, an object, and a workload."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(foreign_operators.__file__).parent))
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(DEFINITION))
    bare = {**DEFINITION, "spec": {}}
    versions = [{"name": "v1", "served": True, "storage": True}]
    schemaless = {**DEFINITION, "spec": {**DEFINITION["spec"], "versions": versions}}
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump(bare))
    (tmp_path / "schemaless.yaml").write_text(yaml.safe_dump(schemaless))
    unmet = deepcopy(DEFINITION)
    spec = unmet["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rule = {"rule": "self.text.startsWith('licence-') && self.text.size() == 40"}
    spec |= {"required": ["text"], "x-kubernetes-validations": [rule]}
    (tmp_path / "unmet.yaml").write_text(yaml.safe_dump(unmet))
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(SITE))
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump({"steps": STEPS}))
    return tmp_path


def verify(behaviour: Behaviour, *options: str) -> int:
    """Verify an operator as a process of its own, and return the exit status."""
    command = [sys.executable, foreign_operators.__file__, behaviour.value]
    words = ["verify", "--crds", "crd.yaml", "--quiet", "0.5", "--patience", "3", "--parallel", "2", *options]
    return main([*words, "--", *command])


@pytest.mark.slow
def test_a_bug_of_a_process_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 2; the report has the place, the steps, the requests and the output of the process."""
    assert (
        verify(
            Behaviour.STATUS_FIRST,
            "--workload",
            "workload.yaml",
            "--disturbances",
            "9",
            "--output",
            "json",
            "--sarif",
            "verify.sarif",
        )
        == 2
    )
    report = json.loads(capsys.readouterr().out)
    (run, *_) = report["broken"]
    (results,) = [each["results"] for each in json.loads(Path("verify.sarif").read_text())["runs"]]
    assert len(results) == len(report["broken"])
    assert any("configmaps default/a" in violation for violation in run["violations"])
    assert run["workload"] == ["apply Site default/a", f"delete {REFERENCE}", "apply Site default/a"]
    assert any("/sites/a/status" in request for request in run["requests"])
    assert report["runs"]["crash_after"] > 0


@pytest.mark.slow
def test_generated_custom_resources_need_no_workload(capsys: pytest.CaptureFixture[str]) -> None:
    """A correct operator survives; the status is 0."""
    assert verify(Behaviour.GOOD, "--operations", "2", "--disturbances", "4") == 0
    output = capsys.readouterr().out
    assert "0 bugs" in output.splitlines()[-1]


@pytest.mark.slow
def test_a_namespace_that_nothing_creates_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """What the operator does there is not verified: the status is 1, also where all disturbances were survived."""
    options = ["--workload", "workload.yaml", "--disturbances", "1", "--junit", "verify.xml"]
    assert verify(Behaviour.ELSEWHERE, *options) == 1
    sentence = "the operator writes into the namespace shop-system, which does not exist: apply it in the workload"
    assert sentence in capsys.readouterr().out
    assert sentence in Path("verify.xml").read_text()


@pytest.mark.slow
def test_an_operator_that_ends_at_once_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The message has its exit status and its output; so has the file for a CI server."""
    assert verify(Behaviour.EXITS, "--workload", "workload.yaml", "--junit", "verify.xml") == 1
    error = capsys.readouterr().err
    assert "ended with status 3 before the first step" in Path("verify.xml").read_text()
    assert "ended with status 3 before the first step" in error
    assert "cannot read the licence" in error


PROGRAMS = {
    "import os, time; os.fork() or time.sleep(600)": "ended with status 0 before the first step, and left processes in",
    "open('/var/run/secrets/kubernetes.io/serviceaccount/token')": "No such file or directory",
    "import socket; socket.create_server(('127.0.0.1', PORT))": "Address already in use",
    "print('x' * 50_000_000); raise SystemExit('no licence')": "no licence",
}
"""Programs that cannot be verified, and what says so."""


@pytest.mark.slow
@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_that_cannot_be_verified_is_an_error(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that goes into the background, that needs a token or a port, or that prints much before it ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-c", code.replace("PORT", str(server.getsockname()[1]))]
        options = ["--workload", "workload.yaml", "--crds", "crd.yaml", "--quiet", "0.5"]
        assert main(["verify", *options, "--", *words]) == 1
    error = capsys.readouterr().err
    assert "before the first step" in error
    assert PROGRAMS[code] in error
    assert len(error) < 5000


def is_alive(pid: str) -> bool:
    """Whether a process runs. A killed one is a zombie until its new parent has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    """The operator is killed, and the temporary folder with the kubeconfig goes."""
    temporary, pid = folder / "temporary", folder / "pid"
    temporary.mkdir()
    code = f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(600)"
    words = ["verify", "--workload", "workload.yaml", "--", sys.executable, "-c", code]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(
        [sys.executable, "-m", "opsdk.cli", *words],
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=output, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        until(lambda: pid.exists() and pid.read_text().endswith(" "), log)
        assert list(temporary.glob("opsdk-verify-*/kubeconfig"))
        process.send_signal(number)
        assert process.wait(60) != 0
    until(lambda: not is_alive(pid.read_text().strip()), log)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workload", "workload.yaml"], "there is no command: add it at the end, after --"),
        (["--", "cat", "-"], "a command needs --workload"),
        (["--workload", "none.yaml", "--", "cat"], "none.yaml cannot be read"),
        (["--workload", "site.yaml", "--", "cat"], "a workload has a list `steps`"),
        (["--workload", "crd.yaml", "--crds", "site.yaml", "--", "cat"], "has no CustomResourceDefinition"),
        (["--crds", "bare.yaml", "--", "cat"], "spec has no group, names, scope, versions"),
        (["--crds", "schemaless.yaml", "--", "cat"], "version v1 has no openAPIV3Schema"),
        (["--crds", "github:acme/sites", "--", "cat"], "'github:acme/sites' is not github:OWNER/NAME@TAG"),
        (["--crds", "unmet.yaml", "--", "cat"], "spec has no value that the schema admits"),
        (["--workload", "workload.yaml", "--", "no-such-manager"], "no-such-manager is not a program"),
        (["--workload", "workload.yaml", "--check", "pods: self.", "--", "cat"], "--check is 'pods: self.'"),
        (["--workload", "workload.yaml", "--kubernetes", "1.99", "--", "cat"], "Kubernetes 1.99 is newer than"),
    ],
)
def test_wrong_options_are_named(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1, and nothing is started."""
    assert main(["verify", *words]) == 1
    assert message in capsys.readouterr().err
