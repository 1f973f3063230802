"""Write a directory for ``KUBEBUILDER_ASSETS`` with fake binaries that start this server."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from opsdk.errors import ConfigError

_PROGRAMS = {
    "etcd": "envtest.fake_binaries.etcd",
    "kube-apiserver": "envtest.fake_binaries.apiserver",
}
_SCRIPT = """#!/bin/sh
# Written by python -m envtest assets.
{path}export {variable}="$0"
exec {python} -P -m {module} "$@"
"""
_PROGRAM = "OPSDK_ENVTEST_PROGRAM"
"""The variable with the path of the program, whose name or folder may have a version of Kubernetes."""
_NAMED = re.compile(r"(?:[a-z][a-z-]*-)?v?(?P<version>\d+\.\d+(?:\.\d+)?)(?:-[a-z0-9-]+)?")


def named_version(environment: Mapping[str, str]) -> str | None:
    """Return the version that the name of the running program or its folder has; None without one.

    >>> named_version({_PROGRAM: "/k8s/1.37.0-linux-amd64/kube-apiserver"}), named_version({_PROGRAM: "/bin/etcd"})
    ('1.37.0', None)
    """
    program = Path(environment.get(_PROGRAM, ""))
    matches = (_NAMED.fullmatch(name) for name in (program.name, program.parent.name))
    return next((match["version"] for match in matches if match), None)


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
            script.write_text(
                _SCRIPT.format(variable=_PROGRAM, path=path, python=shlex.quote(sys.executable), module=module)
            )
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
