"""Pythons of other Debian releases, each in a folder made by debootstrap.

Mounts live in a mount namespace of one command. They end with its last process, however it ends, so removing the
folder never reaches the clone or a device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tools.pythons.interpreters import Interpreter, MissingPythonError, exact_version, series

RELEASES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
"""The Debian release whose python3 has a version."""
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3-venv", "ca-certificates", "etcd-server", "git", "make", "openssl")
"""What most tests need. Tests of other programs, such as kubectl and Chromium, run on the first Python only."""
SCRIPTS = Path("/usr/share/debootstrap/scripts")
DEBIAN = Path("/etc/debian_version")
SETTINGS = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Files of this machine that lead to its package index."""
OF_THIS_ROOT = ("HOME", "KUBECONFIG", "PIP_FIND_LINKS", "PYTHON", "LC_", "TMPDIR", "VIRTUAL_ENV")
"""How variables begin that name files or settings which a chroot lacks."""
ENVIRONMENT = Path("/venv")
NAMESPACE = ("unshare", "--mount", "--propagation", "private")
ENTER = """
root=$1; clone=$2; shift 2
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$clone" "$root$clone"
exec chroot "$root" env --chdir="$clone" "$@"
"""
SECONDS = 900
"""For a mirror that hangs: on an idle machine a folder takes 45 s."""


def variables_of_a_root(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for commands of another root: proxies and package indices stay."""
    kept = {name: value for name, value in variables.items() if not name.startswith(OF_THIS_ROOT)}
    return kept | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def refusal(release: str) -> str:
    """Return why this machine cannot make the folder of a release; empty if it can."""
    if os.geteuid() != 0:
        return "chroots need root"
    if not DEBIAN.exists():
        return "chroots need Debian"
    if shutil.which("debootstrap") is None:
        return f"debootstrap is not installed, so no chroot of {release}: apt-get install debootstrap"
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if allowed.returncode == 0 else f"no mount namespace, so no chroot: {allowed.stderr.strip()}"


def command_of(release: str, root: Path) -> list[str | Path]:
    """Return the command that makes the folder of a release. An older debootstrap makes a newer one as it does sid."""
    script = SCRIPTS / release
    options = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
    mirror = os.environ.get("DEBIAN_MIRROR", MIRROR)
    return [*NAMESPACE, "debootstrap", *options, release, root, mirror, script if script.exists() else SCRIPTS / "sid"]


def make_root(release: str, root: Path) -> float:
    """Make the folder of a release; return the seconds. Raises `MissingPythonError` with debootstrap's last line."""
    started = time.monotonic()
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        done = subprocess.run(  # noqa: S603 - debootstrap, with the names of this file
            command_of(release, partial), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as problem:
        raise MissingPythonError(f"debootstrap {release} took more than {SECONDS} s") from problem
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise MissingPythonError(f"debootstrap {release}: status {done.returncode}, {last}")
    partial.rename(root)
    return time.monotonic() - started


def copy_settings(root: Path) -> None:
    """Give a root this machine's names, package index and certificates."""
    for name in SETTINGS:
        source, target = Path(name), root / name[1:]
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)


def debian_interpreter(version: str, cache: Path, clone: Path, variables: Mapping[str, str]) -> Interpreter:
    """Return the Python of a Debian release, whose folder is made in `cache` if it is not there yet."""
    release = RELEASES.get(version)
    if release is None:
        raise MissingPythonError(f"no Debian release has {version}")
    if reason := refusal(release):
        raise MissingPythonError(reason)
    root = cache / release
    if not root.exists():
        print(f"     {make_root(release, root):5.1f} s  Debian {release}", flush=True)
    copy_settings(root)
    (root / str(clone)[1:]).mkdir(parents=True, exist_ok=True)
    prefix = (*NAMESPACE, "sh", "-ec", ENTER, "enter", str(root), str(clone))
    own = variables_of_a_root(variables)
    exact = exact_version(*prefix, "python3", variables=own)
    if series(exact) != version:
        raise MissingPythonError(f"Debian {release} has Python {exact}: change RELEASES in tools/pythons/debian.py")
    return Interpreter(
        version=exact, origin=f"Debian {release}", environment=ENVIRONMENT, python=Path("/usr/bin/python3"),
        prefix=prefix, root=root, variables=own,
    )  # fmt: skip
