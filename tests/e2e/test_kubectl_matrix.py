"""Whole sessions with the real kubectl: what it prints, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.transcripts import GO_ENVIRONMENT, assert_session, kubectl_minor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SESSIONS = sorted((HERE / "transcripts").glob("*/*.txt"))

pytestmark = [pytest.mark.e2e, pytest.mark.realtime, pytest.mark.slow]


WRITTEN_FOR = 32
"""The minor version whose words the sessions have. Others say some things otherwise: there, only the status counts."""
OLDEST = 31


class Served:
    """A server with or without controllers, and kubectl for it."""

    def __init__(self, folder: Path, controllers: str) -> None:
        self.folder = folder
        self._kubeconfig = folder / "kubeconfig"
        arguments = ["--port", "0", "--kubeconfig", str(self._kubeconfig), "--controllers", controllers]
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "envtest", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready "), (folder / "log").read_text()

    def kubectl(self, namespace: str, folder: Path, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Run it in a folder, for a namespace."""
        more = [f"--kubeconfig={self._kubeconfig}", f"--cache-dir={folder / '.cache'}", f"--namespace={namespace}"]
        # A cache for each session: others may have defined kinds that are gone by now.
        completed = subprocess.run(
            ["kubectl", *more, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={
                **os.environ,
                **GO_ENVIRONMENT,
                "KUBE_EDITOR": str(folder / "editor"),
                "KUBECTL_EXTERNAL_DIFF": "diff -u",
            },
        )
        return completed.returncode, completed.stdout, completed.stderr

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=60) == 0, (self.folder / "log").read_text()
        self._log.close()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """A server for each kind of control plane, for all sessions; started with the first that needs it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: these tests drive the server with it")
    if kubectl_minor() < OLDEST:
        pytest.skip(f"the sessions need kubectl 1.{OLDEST} or later")
    started: dict[str, Served] = _Started(tmp_path_factory)
    yield started
    for served in started.values():
        served.stop()


class _Started(dict[str, Served]):
    def __init__(self, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self._folders = folders

    def __missing__(self, controllers: str) -> Served:
        created = self[controllers] = Served(self._folders.mktemp(controllers), controllers)
        return created


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sessions_go_as_they_are_written(session: Path, servers: dict[str, Served], tmp_path: Path) -> None:
    """Every command ends and says what it would on a real cluster."""
    served, name = servers[session.parent.name], session.stem
    served.kubectl(name, tmp_path, ["create", "namespace", name])
    words = kubectl_minor() == WRITTEN_FOR
    assert_session(
        session.read_text(), lambda arguments: served.kubectl(name, tmp_path, arguments), tmp_path, words=words
    )
