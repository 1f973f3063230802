"""The commands that the pages show exist, and those of console blocks run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_lines import unknown_words, words_of
from documentation import DOCS, PAGES, ROOT, Command, blocks, commands, matches, name_of
from etcd_cluster import progress_flag
from foreign_operators import DEFINITION
from processes import until

from opsdk.builder.flags import parse_flags
from opsdk.builder.options import OperatorOptions
from opsdk.testing.webhooks import free_port

TEXTS = [*PAGES, *sorted((ROOT / "samples").glob("*/README.md"))]
TUTORIAL = DOCS / "tutorial"
"""test_tutorial.py runs its console blocks."""
READY = {"opsdk dev": "started in", "python -m envtest serve": "ready https://"}
"""Programs that run until they are stopped, by their first words: the text that they print when they are ready."""
ANSWERS = {"opsdk plan": (0, 2, 3)}
"""Exit statuses of programs that are answers, by their first words."""
PROGRAMS = ("opsdk ", "kubectl ", "python ")
"""Console blocks without any of these only install or repair other programs."""
LINE = re.compile(r"(?:^(?:    |\$ )|`)((?:opsdk|python -m envtest) [a-z][^`\n]*)", re.MULTILINE)
"""A command in a block, or in backticks."""


def sessions(page: Path) -> list[list[Command]]:
    """Return the commands of each console block of a page."""
    listed = [list(commands(block)) for block in blocks(page) if block.language == "console"]
    return [session for session in listed if any(command.line.startswith(PROGRAMS) for command in session)]


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


class Shell:
    """Runs commands in a folder, as a user with a cluster.

    Attributes:
        replacements: ports and paths of the pages, with those of the test, because tests run side by side.
    """

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "samples/website")]),
            "KUBECONFIG": str(kubeconfig),
        }
        self.replacements: dict[str, str] = {"6443": str(free_port())}

    def run(self, *lines: str) -> str:
        """Run commands in one shell until the last one ends; those in the background are stopped then.

        They end with 0, or with a status that is an answer: see `ANSWERS`.
        """
        script = "\n".join(
            ["set -e", "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT", *map(self.edited, lines)]
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        logs = "".join(path.read_text() for path in self.folder.glob("*.log"))
        answers = next((codes for words, codes in ANSWERS.items() if lines[-1].startswith(words)), (0,))
        assert done.returncode in answers, f"{script}\n{done.stdout}{done.stderr}{logs}"
        return done.stdout

    def edited(self, line: str) -> str:
        """Return a command with the ports and paths of the test."""
        for old, new in self.replacements.items():
            line = line.replace(old, new)
        return line

    def serve(self, line: str, ready: str) -> str:
        """Run a server until it prints a text, and stop it."""
        log = self.folder / "server.log"
        words = shlex.split(self.edited(line))
        with log.open("wb") as output, subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT
        ) as process:  # fmt: skip
            try:
                until(lambda: ready in log.read_text() or process.poll() is not None, log)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 0, f"$ {line}\n{log.read_text()}"
            finally:
                process.kill()
        text = log.read_text()
        assert ready in text, f"$ {line}\n{text}"
        return text


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server in another process."""
    folder = tmp_path_factory.mktemp("server")
    path, log = folder / "kubeconfig", folder / "log"
    arguments = ["envtest", "serve", "--port", "0", "--kubeconfig", str(path)]
    with log.open("wb") as output, subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=output, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        try:
            until(lambda: "ready https://" in log.read_text(), log)
            yield path
        finally:
            process.terminate()


def make_nothing(shell: Shell) -> None:
    """The page needs no files but its own."""


def make_project(shell: Shell) -> None:
    """A project of one kind, and the greeter beside it."""
    _make_project(shell, "demo.example.com", "Widget")
    shutil.copy(ROOT / "samples/greeter/greeter.py", shell.folder)


def _make_project(shell: Shell, group: str, kind: str) -> None:
    shell.run("opsdk init demo")
    shell.folder /= "demo"
    shell.environment["PYTHONPATH"] = str(shell.folder)
    shell.run(f"opsdk create api --group {group} --version v1 --kind {kind}")


def make_repository(shell: Shell) -> None:
    """A project of a kind that the server does not have, and the name of a committer."""
    _make_project(shell, "cards.example.com", "Card")
    shell.environment |= {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "reader"), ("EMAIL", "reader@example.com"))
    }


def make_shop(shell: Shell) -> None:
    """The classes of the page, a definition in a file, and one of cert-manager.io in the cluster."""
    (shell.folder / "shop").mkdir()
    page = DOCS / "custom-resources.md"
    kinds = "".join(block.text for block in blocks(page) if block.language == "python")
    (shell.folder / "shop/kinds.py").write_text(kinds)
    shell.run("mkdir -p config/crd && opsdk generate crd shop.kinds:Database > config/crd/other.yaml")
    shell.run("sed s/demo.opsdk.dev/cert-manager.io/ config/crd/other.yaml | kubectl apply -f -")


MANAGER = """\
#!{python}
import argparse, sys
sys.path.insert(0, {support!r})
from foreign_operators import main
parser = argparse.ArgumentParser()
parser.add_argument("--metrics-bind-address", required=True)
parser.add_argument("--health-probe-bind-address", type=lambda text: int(text.removeprefix(":")))
parser.parse_args()
sys.exit(main(["good"]))
"""
"""A program with the flags of a manager that kubebuilder makes."""


def make_kubebuilder(shell: Shell) -> None:
    """The files of a project of kubebuilder, and a program ``go`` that builds a manager without a compiler."""
    bases, samples = shell.folder / "config/crd/bases", shell.folder / "config/samples"
    bases.mkdir(parents=True)
    samples.mkdir(parents=True)
    (bases / "demo.opsdk.dev_sites.yaml").write_text(json.dumps(DEFINITION))
    metadata = {"name": "a", "namespace": "default"}
    site = {"apiVersion": "demo.opsdk.dev/v1", "kind": "Site", "metadata": metadata, "spec": {"text": "one"}}
    (samples / "demo_v1_site.yaml").write_text(json.dumps(site))
    support = str(ROOT / "tests/support")
    (shell.folder / "manager").write_text(MANAGER.format(python=sys.executable, support=support))
    programs = shell.folder / "programs"
    programs.mkdir()
    go = programs / "go"
    go.write_text("#!/bin/sh\nmkdir -p bin && cp manager bin/manager && chmod +x bin/manager\n")
    go.chmod(0o755)
    shell.environment["PATH"] = f"{programs}{os.pathsep}{shell.environment['PATH']}"


def make_finalizers(shell: Shell) -> None:
    """An object with the finalizer of a program that is gone."""
    shell.run("kubectl create configmap dns")
    shell.run("""kubectl patch configmap dns -p '{"metadata": {"finalizers": ["controller.cattle.io/dns"]}}'""")


def make_bookshelf(shell: Shell) -> None:
    """The sample, and etcd with free ports."""
    if shutil.which("etcd") is None or shutil.which("openssl") is None:
        pytest.skip("needs etcd and openssl in PATH")
    ignored = shutil.ignore_patterns("__pycache__", "tests")
    shutil.copytree(ROOT / "samples/bookshelf", shell.folder, ignore=ignored, dirs_exist_ok=True)
    etcd, peers, books = (str(free_port()) for _ in range(3))
    manifest = shell.folder / "manifests/apiservice.yaml"
    manifest.write_text(manifest.read_text().replace("4443", books))
    described = subprocess.run(["etcd", "--help"], capture_output=True, text=True, check=True, timeout=60)
    shell.replacements |= {
        "kubeconfig >": f"kubeconfig --port {free_port()} >",
        "2379": etcd,
        "bookshelf --tls": f"bookshelf --port {books} --tls",
        "--experimental-watch-progress-notify-interval": progress_flag(described.stdout + described.stderr),
    }
    client, peer = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peers}"
    shell.environment |= {
        "ETCD_LISTEN_CLIENT_URLS": client,
        "ETCD_ADVERTISE_CLIENT_URLS": client,
        "ETCD_LISTEN_PEER_URLS": peer,
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer,
        "ETCD_INITIAL_CLUSTER": f"default={peer}",
    }


PREPARATIONS: dict[str, Callable[[Shell], None]] = {
    "docs/custom-resources.md": make_shop,
    "docs/envtest.md": make_nothing,
    "docs/envtest/server.md": make_nothing,
    "docs/howto/deployment.md": make_nothing,
    "docs/howto/doubles.md": make_nothing,
    "docs/howto/develop.md": make_project,
    "docs/howto/etcd.md": make_bookshelf,
    "docs/howto/lifecycles.md": make_finalizers,
    "docs/howto/plan.md": make_repository,
    "docs/howto/verify-kubebuilder.md": make_kubebuilder,
    "docs/rbac.md": make_nothing,
    "docs/simulation.md": make_nothing,
}
"""What a reader has before the console blocks of a page."""


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_each_command_of_a_page_exists(page: Path) -> None:
    """Subcommands and options are those of ``opsdk --help`` and ``python -m envtest serve --help``."""
    lines = LINE.findall(page.read_text())
    assert [line for line in lines if unknown_words(words_of(line))] == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_each_target_of_make_exists(page: Path) -> None:
    """``make`` with a target, in a block or in backticks, is in the Makefile."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    output = re.findall(r"(?:^(?:    |\$ )|`)make ([\w-]+)", page.read_text(), re.MULTILINE)
    assert set(output) <= set(targets)


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("opsdk dev greeter.py --plain", []),
        ("opsdk run greeter.py -- --any-flag | cat", []),
        ("opsdk generate crds", ["crds"]),
        ("opsdk dev --loud=1 > log", ["--loud=1"]),
        ("python -m envtest serve --port 0 --quick", ["--quick"]),
    ],
)
def test_unknown_command_words_are_found(line: str, unknown: list[str]) -> None:
    """Unknown words of opsdk's commands are found; other programs and operator flags are ignored."""
    assert unknown_words(words_of(line)) == unknown


def test_each_configuration_of_vs_code_starts_a_command() -> None:
    """The file is JSON; its subcommands, options and operator flags exist."""
    (block,) = [each for each in blocks(DOCS / "howto/develop.md") if each.title == ".vscode/launch.json"]
    configurations = json.loads(block.text)["configurations"]
    assert {each["module"] for each in configurations} == {"opsdk.cli"}
    for each in configurations:
        words, _, flags = " ".join(each["args"]).partition(" -- ")
        assert unknown_words(["opsdk", *words.split()]) == []
        parse_flags("operator", OperatorOptions(), flags.split(), {})


def test_the_console_blocks_of_each_page_run() -> None:
    """Each page with console blocks has a preparation, or is a page of the tutorial."""
    assert {name_of(page) for page in PAGES if page.parent != TUTORIAL and sessions(page)} == PREPARATIONS.keys()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.realtime
@pytest.mark.parametrize("name", PREPARATIONS)
def test_the_commands_run_in_order(name: str, tmp_path: Path, kubeconfig: Path) -> None:
    """Each command ends with 0; servers become ready and end with 0."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl in PATH")
    shell = Shell(tmp_path, kubeconfig)
    PREPARATIONS[name](shell)
    write_files(ROOT / name, shell.folder)
    for session in sessions(ROOT / name):
        if any(command.line.endswith(" &") for command in session):
            shell.run(*(command.line for command in session))
            continue
        for command in session:
            ready = next((text for words, text in READY.items() if command.line.startswith(words)), "")
            output = shell.serve(command.line, ready) if ready else shell.run(command.line)
            assert not command.output or matches(command.output, output), output
