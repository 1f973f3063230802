"""Makes classes of the definitions of projects, checks them, and prints a row for each project.

``python -m tests.definitions cert-manager=github:cert-manager/cert-manager@v1.18.2/deploy/crds keda=FOLDER``

``--examples NAME=FOLDER`` sends the objects of a folder through the classes. Exits with 1 if mypy finds an error, if a
definition differs from the one that its classes give again, or if an object does not go round.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupKind, GroupVersionKind
from opsdk.apimachinery.object import TypedObject
from opsdk.apiserver.validation import CustomKinds
from opsdk.cli.generate.models import model_files
from opsdk.cli.generate.sources import read_definitions
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from tests.definitions.differences import differences
from tests.definitions.examples import ExampleResult, round_trips

ROOT = Path(__file__).resolve().parents[2]


class ProjectResult(NamedTuple):
    """What became of the definitions of a project.

    Attributes:
        name: of the project.
        definitions: their number; `versions` likewise.
        lines: of the generated package.
        examples: objects that go round; `refused` are not valid.
        problems: errors of mypy, definitions that differ, objects that do not go round.
    """

    name: str
    definitions: int
    versions: int
    lines: int
    examples: int
    refused: int
    problems: list[str]


def measure(name: str, source: str, folder: Path, *, examples: Path | None = None) -> ProjectResult:
    """Generate the package of a project, and check it."""
    definitions = read_definitions(source)
    files = model_files(definitions, source=source)
    package = f"models_of_{name.replace('-', '_')}"
    for path, text in files.items():
        file = folder / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    classes = _classes(package, files)
    by_kind: dict[GroupKind, list[type[TypedObject]]] = {}
    for gvk, kind_class in classes.items():
        by_kind.setdefault(gvk.group_kind, []).append(kind_class)
    problems = [problem for each in definitions for problem in _problems(each, by_kind)]
    objects = ExampleResult(0, 0, [])
    if examples is not None:
        objects = round_trips(examples, classes, CustomKinds(definitions))
    return ProjectResult(
        name=name,
        definitions=len(definitions),
        versions=sum(len(each["spec"]["versions"]) for each in definitions),
        lines=sum(text.count("\n") for text in files.values()),
        examples=objects.equal,
        refused=objects.refused,
        problems=problems + objects.problems + _type_errors(folder / package),
    )


def _classes(package: str, files: Mapping[str, str]) -> dict[GroupVersionKind, type[TypedObject]]:
    """Return the classes of the kinds."""
    classes: dict[GroupVersionKind, type[TypedObject]] = {}
    for path in files:
        if path.endswith("__init__.py"):
            continue
        module = importlib.import_module(f"{package}.{path.removesuffix('.py').replace('/', '.')}")
        for each in vars(module).values():
            gvk = getattr(each, "gvk", None)
            if isinstance(each, type) and each.__module__ == module.__name__ and isinstance(gvk, GroupVersionKind):
                classes[gvk] = each
    return classes


def _problems(definition: JsonObject, classes: Mapping[GroupKind, list[type[TypedObject]]]) -> list[str]:
    spec, name = definition["spec"], definition["metadata"]["name"]
    try:
        again = crd_for(*classes[GroupKind(spec["group"], spec["names"]["kind"])])
    except UsageError as error:
        return [f"{name}: {error}"]
    return [f"{name}: {each}" for each in differences(definition, again)]


def _type_errors(package: Path) -> list[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", str(package)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode else []


def main() -> int:
    """Measure each project."""
    parser = argparse.ArgumentParser(prog="python -m tests.definitions")
    parser.add_argument("projects", nargs="+", metavar="NAME=SOURCE", help="see opsdk generate models --crd")
    parser.add_argument("--examples", action="append", default=[], metavar="NAME=FOLDER", help="objects of a project")
    options = parser.parse_args()
    folders = {name: Path(path) for name, _, path in (each.partition("=") for each in options.examples)}
    results = []
    with TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for name, _, source in (each.partition("=") for each in options.projects):
            results.append(measure(name, source, Path(folder), examples=folders.get(name)))
    print("| project | definitions | versions | generated lines | objects | not valid | problems |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for each in results:
        counts = (each.definitions, each.versions, each.lines, each.examples, each.refused, len(each.problems))
        print(f"| {each.name} | {' | '.join(f'{count:,}' for count in counts)} |")
    for problem in [problem for each in results for problem in each.problems]:
        print(problem, file=sys.stderr)
    return int(any(each.problems for each in results))


if __name__ == "__main__":
    sys.exit(main())
