"""``python -m tools.release``: checks the clone, and writes a release into dist/release.

usage: python -m tools.release [--tag TAG]

Prints one line for each check. ``--tag`` is the tag that started the release, which must be the one of the version.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.release.rules import (
    Clone,
    ReleaseError,
    checksums,
    declared_version,
    differences,
    named_sbom,
    program,
    refusals,
    runtime_extras,
)

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "dist/release"
TEXT = "Hello World!"
"""What README's program writes for samples/greeter/greeting.yaml."""
BUILDS = {"first": 0o022, "second/in/a/longer/path": 0o077}
"""The folders of the builds, and the umask of each."""
# Other packages and settings of this machine must not reach a build or a check.
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "KUBECONFIG")


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, umask: int = -1) -> str:
    """Return the output of a command. Raises `ReleaseError` with its last lines if it fails."""
    own = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
    done = subprocess.run(  # noqa: S603 - the commands of this file
        command, cwd=cwd, env=own | dict(env or {}), umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()[-20:]
        raise ReleaseError("\n".join([f"{' '.join(map(str, command))}: status {done.returncode}", *lines]))
    return done.stdout


def module(name: str, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs a module of the release's own environment."""
    return [sys.executable, "-m", name, *arguments]


class Report:
    """Prints one line for each check, with the seconds since the one before."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def passed(self, line: str) -> None:
        """Print the line of a check that passed."""
        now = time.monotonic()
        print(f"ok {now - self._last:5.1f} s  {line}", flush=True)
        self._last = now


def clone(tag: str) -> Clone:
    """Return the state of the clone."""
    refs = run("git", "for-each-ref", "--format=%(refname:short) %(objectname) %(*objectname)", "refs/tags")
    # An annotated tag has two names: its own, and after it its commit's.
    tags = {name: commits[-1] for name, *commits in map(str.split, refs.splitlines())}
    return Clone(
        changes=tuple(run("git", "status", "--porcelain").splitlines()),
        head=run("git", "rev-parse", "HEAD").strip(),
        version=declared_version((ROOT / "opsdk/base/version.py").read_text()),
        changelog=(ROOT / "CHANGELOG.md").read_text(),
        fragments=tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs/changes").rglob("*.md"))),
        tags=tags,
        expected_tag=tag,
    )


def build(folder: Path, epoch: str, umask: int) -> dict[str, bytes]:
    """Build the committed files in `folder`: the sdist, and the wheel from it. Return both files."""
    folder.mkdir(parents=True)
    archive = folder.parent / f"{folder.name}.tar"
    run("git", "archive", "--output", archive, "HEAD")
    run("tar", "-xf", archive, "-C", folder, umask=umask)
    run(*module("build", "--no-isolation", "."), cwd=folder, env={"SOURCE_DATE_EPOCH": epoch}, umask=umask)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def install(folder: Path, wheel: Path, extras: Sequence[str]) -> Path:
    """Install the wheel with extras into a new environment; return its Python."""
    run(*module("venv", "--without-pip", folder))
    python = folder / "bin/python"
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    run(*module("pip", "--python", python, "install", "--quiet", "--no-compile", wanted), cwd=folder)
    run(*module("pip", "--python", python, "check"), cwd=folder)
    return python


def try_wheel(folder: Path, wheel: Path, report: Report) -> Path:
    """Run README's program with the wheel alone, with each extra, and with all; return the Python that has all."""
    extras = runtime_extras((ROOT / "pyproject.toml").read_text())
    wanted = {"all": extras, "none": [], **{extra: [extra] for extra in extras}}
    # Two at a time: one loads and unpacks while the other waits.
    with ThreadPoolExecutor(max_workers=2) as pool:
        installed = list(pool.map(lambda name: install(folder / name, wheel, wanted[name]), wanted))
    pythons = dict(zip(wanted, installed, strict=True))
    report.passed(f"the wheel installs in {len(wanted)} new environments: alone, with each extra, with all")
    (folder / "greeter.py").write_text(program((ROOT / "README.md").read_text(), "greeter.py"))
    manifest = ROOT / "samples/greeter/greeting.yaml"
    script = ROOT / "tools/release/greeting.py"
    lines = run(pythons["all"], script, folder / "greeter.py", manifest, *installed, cwd=folder).splitlines()
    if lines != [f"{python}\t{TEXT}" for python in installed]:
        raise ReleaseError("\n".join(["README's program wrote:", *lines]))
    report.passed(f"README's program runs in each: {', '.join(wanted)}")
    return pythons["all"]


def check_workflows(report: Report) -> None:
    """Check the workflows against their schema, and for what makes them unsafe."""
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    run(*module("check_jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows))
    run(Path(sys.executable).parent / "zizmor", "--offline", "--no-config", "--persona=pedantic", *workflows)
    report.passed(f"check-jsonschema and zizmor accept {', '.join(path.name for path in workflows)}")


def make(work: Path, tag: str) -> None:
    """Do every check, then write the files."""
    report = Report()
    state = clone(tag)
    if reasons := list(refusals(state)):
        raise ReleaseError("\n".join(reasons))
    report.passed(f"{state.version} at {state.head[:12]}: clean tree, changelog and tag agree")
    check_workflows(report)

    epoch = run("git", "log", "-1", "--format=%ct").strip()
    first, second = (build(work / name, epoch, umask) for name, umask in BUILDS.items())
    if found := differences(first, second):
        raise ReleaseError("\n".join(found))
    report.passed(f"two builds are equal: {', '.join(first)}")
    files = {name: work / "first/dist" / name for name in first}
    run(*module("twine", "check", "--strict", *files.values()))
    report.passed("twine check --strict")

    (wheel,) = [path for name, path in files.items() if name.endswith(".whl")]
    python = try_wheel(work / "environments", wheel, report)
    sbom = work / f"opsdk-{state.version}.cdx.json"
    pyproject = ROOT / "pyproject.toml"
    options = ("--output-reproducible", "--of", "JSON", "--pyproject", pyproject, "--mc-type", "library")
    run(*module("cyclonedx_py", "environment", *options, "-o", sbom, python))
    sbom.write_text(named_sbom(sbom.read_text(), state.version))
    report.passed(f"{sbom.name}: the wheel with all extras, and what they install")

    target = ROOT / RELEASE
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    contents = {path.name: path.read_bytes() for path in [*files.values(), sbom]}
    for name, content in {**contents, "SHA256SUMS": checksums(contents).encode()}.items():
        (target / name).write_bytes(content)
    report.passed(f"{RELEASE}: {', '.join([*contents, 'SHA256SUMS'])}")


def main() -> int:
    """Run the tool; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Make the files of a release.")
    parser.add_argument("--tag", default="", help="the tag that started the release")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as work:
            make(Path(work), arguments.tag)
    except ReleaseError as problem:
        print(f"no release: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
