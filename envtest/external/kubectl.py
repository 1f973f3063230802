"""Run an installed kubectl against any cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from envtest.plane.kubeconfig import write_private
from opsdk.errors import ConfigError


class Output(msgspec.Struct, frozen=True):
    """The output and the exit code of a command."""

    code: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return self.stdout


def find(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of kubectl: ``TEST_ASSET_KUBECTL``, ``$KUBEBUILDER_ASSETS/kubectl``, or the one in PATH."""
    if env.get("TEST_ASSET_KUBECTL"):
        return Path(env["TEST_ASSET_KUBECTL"])
    assets = Path(env.get("KUBEBUILDER_ASSETS") or "/usr/local/kubebuilder/bin") / "kubectl"
    if assets.exists():
        return assets
    path = shutil.which("kubectl", path=env.get("PATH"))
    return Path(path) if path else None


async def run(
    kubeconfig: str, args: Sequence[str], *, stdin: str = "", seconds: float = 60.0, check: bool = True
) -> Output:
    """Run kubectl in a thread until it ends; virtual time does not advance in the meantime.

    Raises:
        ConfigError: no kubectl is installed; or, with `check`, it failed or took longer than `seconds`.
    """
    binary = find()
    if binary is None:
        raise ConfigError("kubectl was not found: install it, or set TEST_ASSET_KUBECTL")
    with tempfile.TemporaryDirectory(prefix="envtest-kubectl-") as home:
        file = Path(home) / "kubeconfig"
        write_private(file, kubeconfig)
        command = [str(binary), f"--kubeconfig={file}", *args]
        environment = {**os.environ, "HOME": home, "KUBECACHEDIR": f"{home}/cache"}
        loop = asyncio.get_running_loop()
        output = await loop.run_in_executor(None, _run, command, environment, stdin, seconds)
    if check and output.code:
        raise ConfigError(f"kubectl {' '.join(args)} exited with {output.code}: {output.stderr.strip()}")
    return output


def _run(command: Sequence[str], environment: Mapping[str, str], stdin: str, seconds: float) -> Output:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own kubectl
            command, env=dict(environment), input=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{' '.join(command[2:])}: did not end within {seconds:g} s") from error
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be run: {error}") from error
    return Output(done.returncode, done.stdout, done.stderr)
