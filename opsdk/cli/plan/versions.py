"""The other version of ``opsdk plan --against``: a checkout, a wheel, an image, an environment, or a revision."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from opsdk.cli.plan.images import copy_package
from opsdk.cli.plan.processes import FinishedProgram, OtherVersionError, run_program
from opsdk.cli.project import Project, find_project

__all__ = ["OtherVersion", "VersionRequest", "find_version"]

_GIT: Final = "git:"
_IMAGE: Final = "image:"
_PYTHONS: Final = ("bin/python", "Scripts/python.exe")
_PROBE: Final = """
import importlib.util, json, sys

def find(name):
    try:
        return importlib.util.find_spec(name)
    except ImportError:
        return None

if "" not in sys.path:
    sys.path.insert(0, "")
spec = find(sys.argv[1])
places = [] if spec is None else [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
print(json.dumps({"opsdk": bool(find("opsdk")), "plan": bool(find("opsdk.cli.plan")), "places": places}))
"""
"""Prints what an interpreter would import, and imports no more than opsdk's own packages. It runs on old versions."""


class _Probe(msgspec.Struct, frozen=True):
    """What an interpreter would import.

    Attributes:
        opsdk: whether it has opsdk.
        plan: whether its opsdk has ``opsdk plan``.
        places: files or folders of the operator's module; empty if it has none.
    """

    opsdk: bool = False
    plan: bool = False
    places: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRequest:
    """What a user asks to compare with.

    Attributes:
        version: as it is on the command line.
        reference: of the operator, as it is on the command line; empty for that of the project.
        timeout: seconds for each program that is run.
        project: around the current folder.
    """

    version: str
    reference: str
    timeout: float
    project: Project | None = field(default_factory=lambda: find_project(Path.cwd()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """Another version of the operator, ready to run.

    Attributes:
        name: for the head of the plan.
        python: the interpreter.
        folder: the current folder of its process.
        reference: of its operator.
        paths: that its interpreter searches first.
    """

    name: str
    python: Path
    folder: Path
    reference: str
    paths: Sequence[Path] = ()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its process."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
        if self.paths:
            inherited["PYTHONPATH"] = os.pathsep.join(
                [*map(str, self.paths), *filter(None, [os.environ.get("PYTHONPATH", "")])]
            )
        # The checkout of another version stays as it is, and messages have no colours.
        return inherited | {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "TERM": "dumb"}

    def run(self, *words: str | Path, timeout: float) -> FinishedProgram:
        """Run its interpreter with arguments. Raises `OtherVersionError` if it does not start or end."""
        return run_program([self.python, *words], folder=self.folder, timeout=timeout, environment=self.environment)


def find_version(request: VersionRequest, temporary: Path) -> OtherVersion:
    """Return the other version, after a look at what its interpreter would import.

    Args:
        request: of the user.
        temporary: an empty folder, for the files of a git revision, a wheel or an image.

    Raises:
        OtherVersionError: it does not exist, cannot be prepared, has no ``opsdk plan``, or imports this version.
    """
    version = request.version
    path = Path(version)
    if version.startswith(_GIT):
        return _of_revision(request, temporary)
    if version.startswith(_IMAGE):
        return _of_image(request, temporary)
    if path.suffix == ".whl" and path.is_file():
        return _of_wheel(request, path.absolute(), temporary)
    if not path.is_dir():
        raise OtherVersionError(
            "there is no such folder or wheel: name a checkout, a virtual environment, a .whl file, git:REVISION, or "
            "image:NAME"
        )
    for name in _PYTHONS:
        # A link whose target is missing is named later, when it does not start.
        if os.path.lexists(python := path.absolute() / name):
            return _of_environment(request, path.resolve(), python, temporary)
    if not (path / "pyproject.toml").is_file():
        raise OtherVersionError(
            "the folder has neither pyproject.toml, as a checkout has, nor bin/python, as a virtual environment has"
        )
    return _of_checkout(request, version, path.resolve())


# ------------------------------------------------------------------ checkouts
def _of_checkout(request: VersionRequest, name: str, folder: Path) -> OtherVersion:
    project = find_project(folder)
    root = project.folder if project is not None else folder
    sources = root / "src"
    other = OtherVersion(
        name=name,
        python=Path(sys.executable),
        folder=folder,
        reference=_reference_in(request, project),
        paths=[*([sources] if sources.is_dir() else []), root],
    )
    places = _probed(request, other)
    if not all(place.is_relative_to(root.resolve()) for place in places):
        raise OtherVersionError(
            f"{other.reference} is imported from {places[0]}, not from the checkout: name "
            "a virtual environment in which that version is installed"
        )
    return other


def _reference_in(request: VersionRequest, project: Project | None) -> str:
    """Return the operator of another checkout: that of its project, unless the user names another one than the own."""
    own = request.project.operator if request.project is not None else ""
    theirs = project.operator if project is not None else ""
    return theirs if theirs and request.reference in ("", own) else request.reference or own


def _of_revision(request: VersionRequest, temporary: Path) -> OtherVersion:
    """Return the version of a git revision: its files, in a temporary folder, at the place of the current folder."""
    revision = request.version.removeprefix(_GIT)
    prefix = _git(request, "rev-parse", "--show-prefix").output.strip()
    top = Path(_git(request, "rev-parse", "--show-toplevel").output.strip())
    commit = _git(request, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", revision=revision)
    archive, tree = temporary / "revision.tar", temporary / "revision"
    identifier = commit.output.strip()
    _git(request, "archive", "--format=tar", f"--output={archive}", identifier, folder=top)
    try:
        with tarfile.open(archive) as files:
            files.extractall(tree, filter="tar")
    except (tarfile.TarError, OSError) as error:
        raise OtherVersionError(f"its files cannot be written: {error}") from error
    archive.unlink()
    folder = tree / prefix
    if not folder.is_dir():
        raise OtherVersionError(f"the revision has no folder {prefix}")
    return _of_checkout(request, f"{request.version} ({identifier[:8]})", folder.resolve())


def _git(
    request: VersionRequest, *words: str, revision: str | None = None, folder: Path | None = None
) -> FinishedProgram:
    """Run git in a folder; the current one if there is none. Raises `OtherVersionError` if it fails."""
    git = shutil.which("git")
    if git is None:
        raise OtherVersionError("git is not installed: install it, or name a checkout")
    # A revision must not be an option of git.
    unknown = revision is not None and (not revision or revision.startswith("-"))
    finished = (
        FinishedProgram(1, "", "")
        if unknown
        else run_program([git, *words], folder=folder or Path.cwd(), timeout=request.timeout)
    )
    if finished.status == 0:
        return finished
    if revision is not None:
        raise OtherVersionError(f"git knows no revision {revision!r}: fetch it, or look at git log")
    raise OtherVersionError(f"git {words[0]} failed: {finished.reason}")


# ------------------------------------------------------------------ wheels and environments
def _of_wheel(request: VersionRequest, wheel: Path, temporary: Path) -> OtherVersion:
    """Return the version of a wheel, installed into a temporary folder without what it depends on."""
    target = temporary / "wheel"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-index", "--no-deps", "--target", str(target), str(wheel)]
    finished = run_program(command, folder=temporary, timeout=request.timeout)
    if finished.status:
        raise OtherVersionError(f"pip does not install the wheel: {finished.reason}")
    return _of_packages(request, target, temporary, "wheel")


def _of_image(request: VersionRequest, temporary: Path) -> OtherVersion:
    """Return the version of a container image: its package, copied into a temporary folder."""
    target, image = temporary / "image", request.version.removeprefix(_IMAGE)
    package = _installed_reference(request).partition(":")[0].partition(".")[0]
    target.mkdir()
    copy_package(image, package, target, timeout=request.timeout)
    return _of_packages(request, target, temporary, "image")


def _of_packages(request: VersionRequest, target: Path, temporary: Path, source: str) -> OtherVersion:
    """Return the version in a folder with packages, which uses what this environment has besides."""
    reference = _installed_reference(request)
    other = OtherVersion(
        name=request.version,
        python=Path(sys.executable),
        folder=_stand_in(request, temporary),
        reference=reference,
        paths=[target],
    )
    places = _probed(request, other)
    if not all(place.is_relative_to(target.resolve()) for place in places):
        raise OtherVersionError(
            f"the {source} does not have the module of {other.reference}; it is imported from {places[0]}"
        )
    return other


def _of_environment(request: VersionRequest, environment: Path, python: Path, temporary: Path) -> OtherVersion:
    other = OtherVersion(
        name=request.version,
        python=python,
        folder=_stand_in(request, temporary),
        reference=_installed_reference(request),
    )
    places = _probed(request, other)
    here = (request.project.folder if request.project is not None else Path.cwd()).resolve()
    if any(place.is_relative_to(here) and not place.is_relative_to(environment) for place in places):
        raise OtherVersionError(
            f"it imports {other.reference} from {places[0]}, which is this version: install the other version there"
        )
    return other


def _installed_reference(request: VersionRequest) -> str:
    """Return the operator that the user or this project names. A file is not a part of an installation."""
    reference = request.reference or (request.project.operator if request.project is not None else "")
    if not reference or reference.partition(":")[0].endswith(".py"):
        raise OtherVersionError("name an operator that is installed there, as MODULE:NAME")
    return reference


def _stand_in(request: VersionRequest, temporary: Path) -> Path:
    """Make a project with the settings of this one, and with its doubles, which are not a part of an installation.

    The process must not run in this project's folder: the current folder is searched first.
    """
    folder = temporary / "project"
    folder.mkdir()
    project = request.project
    if project is None:
        return folder
    settings = {"operator": project.operator, "doubles": project.doubles, "namespace": project.namespace}
    lines = ["[tool.opsdk]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items() if value)]
    (folder / "pyproject.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")
    module = project.doubles.partition(":")[0].partition(".")[0]
    if module and module != project.package:
        if (source := project.folder / f"{module}.py").is_file():
            shutil.copy(source, folder)
        elif (source := project.folder / module).is_dir():
            shutil.copytree(source, folder / module)
    return folder


# ------------------------------------------------------------------ the probe
def _probed(request: VersionRequest, other: OtherVersion) -> Sequence[Path]:
    """Return where the other version's operator is imported from: at least one place.

    Raises:
        OtherVersionError: its interpreter does not start, or has no operator or no ``opsdk plan``.
    """
    module = other.reference.partition(":")[0]
    file = other.folder / module if module.endswith(".py") else None
    finished = other.run(
        "-c", _PROBE, "opsdk" if file is not None else module.partition(".")[0], timeout=request.timeout
    )
    try:
        probe = msgspec.json.decode(finished.output, type=_Probe)
    except msgspec.MsgspecError as error:
        raise OtherVersionError(f"{other.python} does not run: {finished.reason}") from error
    if not probe.plan:
        lacks = "its opsdk has no plan command" if probe.opsdk else "it has no opsdk"
        raise OtherVersionError(f"{lacks}: {other.python} -m pip install --upgrade 'opsdk[cli,envtest]'")
    places = [Path(place).resolve() for place in probe.places] if file is None else [file.resolve()]
    if not places or (file is not None and not file.is_file()):
        raise OtherVersionError(f"it has no module {module}: install it there, or name another operator")
    return places
