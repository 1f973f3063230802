"""``opsdk apiserver --wait`` learns that the server could not start."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opsdk.cli.apiserver import wait_until_served
from opsdk.errors import ConnectError


@pytest.mark.slow
def test_a_taken_port_ends_the_wait(tmp_path: Path) -> None:
    """With the server's reason, at once, and not after a minute; the next start is not mistaken for the failed one."""
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "envtest", "serve", "--kubeconfig", str(kubeconfig), "--port"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run([*command, port], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        with pytest.raises(ConnectError, match=rf"could not start: .*{port}"):
            wait_until_served(kubeconfig, 60.0)
    with subprocess.Popen([*command, "0"], stdout=subprocess.DEVNULL) as server:
        try:
            while not kubeconfig.exists():
                assert server.poll() is None
            wait_until_served(kubeconfig, 60.0)
        finally:
            server.terminate()
    assert not Path(f"{kubeconfig}.error").exists()
