"""Makes classes of the definitions of projects, checks them, and prints a row for each project.

``python -m tests.definitions cert-manager=github:cert-manager/cert-manager@v1.18.2/deploy/crds keda=FOLDER``

Exits with 1 if mypy finds an error, or a definition differs from the one that its classes give again.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import TypedObject
from opsdk.cli.generate.models import model_files
from opsdk.cli.generate.sources import read_definitions
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from tests.definitions.differences import differences

ROOT = Path(__file__).resolve().parents[2]


class ProjectResult(NamedTuple):
    """What became of the definitions of a project.

    Attributes:
        name: of the project.
        definitions: their number; `versions` likewise.
        lines: of the generated package.
        problems: errors of mypy, and definitions that differ.
    """

    name: str
    definitions: int
    versions: int
    lines: int
    problems: list[str]


def measure(name: str, source: str, folder: Path) -> ProjectResult:
    """Generate the package of a project, and check it."""
    definitions = read_definitions(source)
    files = model_files(definitions, source=source)
    package = f"models_of_{name.replace('-', '_')}"
    for path, text in files.items():
        file = folder / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    kinds = _classes(package, files)
    problems = [problem for each in definitions for problem in _problems(each, kinds)]
    return ProjectResult(
        name=name,
        definitions=len(definitions),
        versions=sum(len(each["spec"]["versions"]) for each in definitions),
        lines=sum(text.count("\n") for text in files.values()),
        problems=problems + _type_errors(folder / package),
    )


def _classes(package: str, files: dict[str, str]) -> dict[tuple[str, str], list[type[TypedObject]]]:
    """Return the classes by group and kind."""
    classes: dict[tuple[str, str], list[type[TypedObject]]] = {}
    for path in files:
        if path.endswith("__init__.py"):
            continue
        module = importlib.import_module(f"{package}.{path.removesuffix('.py').replace('/', '.')}")
        for each in vars(module).values():
            gvk = getattr(each, "gvk", None)
            if isinstance(each, type) and each.__module__ == module.__name__ and isinstance(gvk, GroupVersionKind):
                classes.setdefault((gvk.group, gvk.kind), []).append(each)
    return classes


def _problems(definition: JsonObject, classes: dict[tuple[str, str], list[type[TypedObject]]]) -> list[str]:
    spec, name = definition["spec"], definition["metadata"]["name"]
    try:
        again = crd_for(*classes[spec["group"], spec["names"]["kind"]])
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
    results = []
    with TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for project in parser.parse_args().projects:
            name, _, source = project.partition("=")
            results.append(measure(name, source, Path(folder)))
    print("| project | definitions | versions | lines | differences and errors |\n| --- | --- | --- | --- | --- |")
    for each in results:
        print(f"| {each.name} | {each.definitions} | {each.versions} | {each.lines:,} | {len(each.problems)} |")
    for problem in [problem for each in results for problem in each.problems]:
        print(problem, file=sys.stderr)
    return int(any(each.problems for each in results))


if __name__ == "__main__":
    sys.exit(main())
