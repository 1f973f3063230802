"""Write a directory for ``KUBEBUILDER_ASSETS`` with fake binaries that start this server."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from opsdk.errors import ConfigError

_PROGRAMS = {
    "etcd": "envtest.fake_binaries.etcd",
    "kube-apiserver": "envtest.fake_binaries.apiserver",
}
_SCRIPT = """#!/bin/sh
# Written by python -m envtest assets.
{path}exec {python} -P -m {module} "$@"
"""


def write_assets(directory: Path) -> list[Path]:
    """Write the programs and a link to the installed kubectl. Existing files with these names are replaced."""
    home = str(Path(__file__).resolve().parents[2])
    # The interpreter finds an installed package; a clone needs PYTHONPATH.
    installed = Path(home).name in {"site-packages", "dist-packages"}
    more = '"${PYTHONPATH:+:$PYTHONPATH}"'
    path = "" if installed else f"export PYTHONPATH={shlex.quote(home)}{more}\n"
    paths = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, module in _PROGRAMS.items():
            script = directory / name
            script.unlink(missing_ok=True)
            script.write_text(_SCRIPT.format(path=path, python=shlex.quote(sys.executable), module=module))
            script.chmod(0o755)
            paths.append(script)
        kubectl = shutil.which("kubectl")
        link = directory / "kubectl"
        if kubectl is not None and not (link.exists() and link.samefile(kubectl)):
            link.unlink(missing_ok=True)
            link.symlink_to(Path(kubectl).resolve())
            paths.append(link)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error}") from error
    return paths
