"""The project of the current folder: reads ``[tool.opsdk]`` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from opsdk.cli.package.settings import SETTINGS_KEYS, ContainerSettings, container_settings
from opsdk.errors import UsageError

_TEXT_KEYS = ("operator", "doubles", "namespace", "image")
_IGNORE_KEY = "verify-ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One project.

    Attributes:
        folder: the folder of pyproject.toml.
        name: the name of the distribution.
        operator: ``MODULE:NAME`` of the operator, or of the function that makes it.
        doubles: ``MODULE:NAME`` of the function that makes the doubles of external systems; empty without any.
        namespace: the operator's namespace in a cluster.
        image: the container image.
        version: of the distribution; empty without one.
        container: variables, resources, replicas, scheduling and namespaces of its pods.
        verify_ignore: what ``opsdk verify`` does not compare, as ``RESOURCE`` or ``RESOURCE:PATH``.
    """

    folder: Path
    name: str
    operator: str = ""
    doubles: str = ""
    namespace: str = ""
    image: str = ""
    version: str = ""
    container: ContainerSettings = ContainerSettings()
    verify_ignore: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The Python package: the first part of `operator`."""
        return self.operator.partition(":")[0].partition(".")[0]


def find_project(start: Path) -> Project | None:
    """Return the project of a folder, or None outside of projects.

    Raises:
        UsageError: pyproject.toml is not valid TOML, or has unknown keys or wrong values in ``[tool.opsdk]``.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            break
    else:
        return None
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    table = document.get("tool", {}).get("opsdk", {})
    ignore = table.pop(_IGNORE_KEY, [])
    if not isinstance(ignore, list) or not all(isinstance(each, str) for each in ignore):
        raise UsageError(f"{path}: [tool.opsdk] {_IGNORE_KEY} = {ignore!r}: write a list of RESOURCE or RESOURCE:PATH")
    texts = {key: value for key, value in table.items() if key not in SETTINGS_KEYS}
    for key, value in texts.items():
        if key not in _TEXT_KEYS or not isinstance(value, str):
            raise UsageError(
                f"{path}: [tool.opsdk] {key} = {value!r}: write strings for {', '.join(_TEXT_KEYS)}; "
                f"the other keys are {', '.join((*SETTINGS_KEYS, _IGNORE_KEY))}"
            )
    try:
        container = container_settings(table)
    except UsageError as error:
        raise UsageError(f"{path}: [tool.opsdk] {error}") from error
    metadata = document.get("project", {})
    name, version = metadata.get("name", folder.name), metadata.get("version", "")
    return Project(folder=folder, name=name, version=version, container=container, verify_ignore=tuple(ignore), **texts)


def current_project() -> Project:
    """Return the project around the current folder. Raises `UsageError` if it has none, or names no operator."""
    project = find_project(Path.cwd())
    if project is None or not project.operator:
        raise UsageError(
            "no project found in this folder or above: run opsdk init, or add [tool.opsdk] to pyproject.toml"
        )
    return project


def operator_namespace(project: Project | None, operator: str) -> str:
    """Return the namespace of an operator in the generated manifests.

    >>> operator_namespace(None, "website")
    'website-system'
    """
    return (project.namespace if project is not None else "") or f"{operator}-system"
