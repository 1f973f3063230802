"""``opsdk init`` and ``opsdk create api``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from opsdk.base.version import VERSION
from opsdk.cli.output import Output, OutputFormat, print_files
from opsdk.cli.project import Project, current_project
from opsdk.cli.scaffold.files import (
    add_module,
    check_group_version,
    check_new_kind,
    declared_version,
    existing_api_advice,
    module_of,
    package_of,
    spoke_class,
)
from opsdk.cli.scaffold.formatting import formatted
from opsdk.cli.scaffold.record import ScaffoldFile, ScaffoldRecord, read_record
from opsdk.cli.scaffold.spec_fields import spec_arguments
from opsdk.errors import UsageError


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="project folder; it must not contain these files")],
    *,
    name: Annotated[str, typer.Option(help="name of the operator; default: the folder's name")] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Create a project: a package with an operator without reconcilers.

    opsdk init demo
    """
    name = name or folder.absolute().name
    package = package_of(name)
    values = {"name": name, "package": package}
    files = {
        "pyproject.toml": ScaffoldFile(template="PYPROJECT", values=values),
        "README.md": ScaffoldFile(template="README", values=values),
        "AGENTS.md": ScaffoldFile(template="AGENTS", values=values),
        ".gitignore": ScaffoldFile(template="GITIGNORE", values={}),
        f"{package}/__init__.py": ScaffoldFile(template="INIT", values=values),
        f"{package}/__main__.py": ScaffoldFile(template="MAIN", values=values),
        f"{package}/operator.py": ScaffoldFile(template="OPERATOR", values=values),
    }
    print_files(output, _write_new(folder, files))
    if output is OutputFormat.JSON:
        return
    enter = f"cd {folder} && " if folder.absolute() != Path.cwd() else ""
    print(f"next: {enter}opsdk create api --group demo.example.com --version v1 --kind Widget && opsdk dev")


def create_api(
    *,
    group: Annotated[str, typer.Option(help="API group, a domain name that you own")],
    version: Annotated[str, typer.Option(help="API version, such as v1alpha1")] = "v1",
    kind: Annotated[str, typer.Option(help="kind in CamelCase")],
    cluster_scoped: Annotated[bool, typer.Option("--cluster-scoped", help="the kind is cluster-scoped")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add a kind with a reconciler, a test and an object to the project of the current folder.

    opsdk create api --group demo.example.com --version v1 --kind Widget
    """
    project = current_project()
    check_group_version(group, version)
    check_new_kind(kind)
    module = module_of(kind)
    own_imports = [
        f"from {project.package}.{module} import {kind}, {kind}Spec",
        f"from {project.package}.operator import make_operator",
    ]
    values = {
        "package": project.package,
        "group": group,
        "version": version,
        "kind": kind,
        "variable": module,
        "scope": "\n    namespaced = False" if cluster_scoped else "",
        "child_namespace": ', namespace="default"' if cluster_scoped else "",
        "own_imports": "\n".join(sorted(own_imports)),
        "meta": 'name="a"' if cluster_scoped else 'name="a", namespace="default"',
        "key": "a" if cluster_scoped else "default/a",
    }
    files = {
        f"{project.package}/{module}.py": ScaffoldFile(template="API", values=values),
        f"tests/test_{module}.py": ScaffoldFile(template="TEST", values=values),
        f"samples/{module}.yaml": ScaffoldFile(template="SAMPLE", values=values),
    }
    api = project.folder / project.package / f"{module}.py"
    if api.is_file():
        advice = existing_api_advice(api.read_text(encoding="utf-8"), group=group, version=version, kind=kind)
        if advice:
            raise UsageError(f"{api} already exists, and nothing was written: {advice}")
    _add(project, module, files, output)


def create_version(
    *,
    kind: Annotated[str, typer.Option(help="kind of an API of this project")],
    version: Annotated[str, typer.Option(help="the new API version, such as v1beta1")],
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add a version to a kind, with its conversion and a test of the round trip.

    opsdk create version --kind Widget --version v1beta1
    """
    project, module = current_project(), module_of(kind)
    source = _api_source(project, kind)
    group, hub_version = declared_version(source, kind)
    check_group_version(group, version)
    if version == hub_version:
        raise UsageError(f"{kind} has the version {version} already")
    others = sorted(path.name for path in (project.folder / project.package).glob(f"{module}_v*.py"))
    if others:
        raise UsageError(
            f"{others[0]} has a converter for {kind} already: add the class for {version} there, and to its CONVERTER "
            "a second Spoke"
        )
    values = {
        "package": project.package,
        "group": group,
        "version": version,
        "hub_version": hub_version,
        "kind": kind,
        "spoke": spoke_class(kind, version),
        "variable": module,
        "scope": "\n    namespaced = False" if _is_cluster_scoped(source) else "",
        "meta": _meta_arguments(source),
        "arguments": spec_arguments(source, kind, changes=True),
    }
    files = {
        f"{project.package}/{module}_{version}.py": ScaffoldFile(template="VERSION", values=values),
        f"tests/test_{module}_{version}.py": ScaffoldFile(template="VERSION_TEST", values=values),
    }
    _add(project, f"{module}_{version}", files, output)
    if output is OutputFormat.TEXT:
        print(f"next: declare the fields of {version}, run pytest, then opsdk generate all")


def create_webhook(
    *,
    kind: Annotated[str, typer.Option(help="kind of an API of this project")],
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add a defaulting and a validating webhook for a kind, with tests of the rules.

    opsdk create webhook --kind Widget
    """
    project, module = current_project(), module_of(kind)
    source = _api_source(project, kind)
    values = {
        "package": project.package,
        "name": project.name,
        "kind": kind,
        "variable": module,
        "namespace": _namespace_argument(source),
        "arguments": spec_arguments(source, kind),
    }
    _add(
        project,
        f"{module}_webhook",
        {
            f"{project.package}/{module}_webhook.py": ScaffoldFile(template="WEBHOOK", values=values),
            f"tests/test_{module}_webhook.py": ScaffoldFile(template="WEBHOOK_TEST", values=values),
        },
        output,
    )


def create_policy(
    *,
    kind: Annotated[str, typer.Option(help="kind of an API of this project")],
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add an admission policy for a kind, with a test on a local API server.

    opsdk create policy --kind Widget
    """
    project, module = current_project(), module_of(kind)
    own_imports = [
        f"from {project.package}.{module} import {kind}, {kind}Spec",
        f"from {project.package}.operator import make_operator",
    ]
    source = _api_source(project, kind)
    values = {
        "package": project.package,
        "kind": kind,
        "variable": module,
        "namespace": _namespace_argument(source),
        "arguments": spec_arguments(source, kind),
        "own_imports": "\n".join(sorted(own_imports)),
    }
    files = {
        f"{project.package}/{module}_policy.py": ScaffoldFile(template="POLICY", values=values),
        f"tests/test_{module}_policy.py": ScaffoldFile(template="POLICY_TEST", values=values),
    }
    _add(project, f"{module}_policy", files, output)


def _api_source(project: Project, kind: str) -> str:
    """Return the source of a kind's module. Raises `UsageError` if the file is missing."""
    api = project.folder / project.package / f"{module_of(kind)}.py"
    if not api.is_file():
        raise UsageError(f"{api} does not exist: run opsdk create api --kind {kind} first")
    return api.read_text(encoding="utf-8")


def _is_cluster_scoped(source: str) -> bool:
    return "namespaced = False" in source


def _meta_arguments(source: str) -> str:
    """Return the arguments of an `ObjectMeta` in a generated test."""
    return f'name="a"{_namespace_argument(source)}'


def _namespace_argument(source: str) -> str:
    """Return what follows the name in the arguments of an `ObjectMeta`."""
    return "" if _is_cluster_scoped(source) else ', namespace="default"'


def _add(project: Project, module: str, files: Mapping[str, ScaffoldFile], output: OutputFormat) -> None:
    """Write new files, and call the module's ``add_to`` in ``operator.py``."""
    operator = project.folder / project.package / "operator.py"
    try:
        source = add_module(operator.read_text(encoding="utf-8"), project.package, module)
    except (OSError, SyntaxError) as error:
        raise UsageError(f"{operator} cannot be changed: {error}") from error
    written = _write_new(project.folder, files)
    operator.write_text(formatted(project.folder, f"{project.package}/operator.py", source), encoding="utf-8")
    print_files(output, {**written, operator: "changed"})


def _write_new(folder: Path, files: Mapping[str, ScaffoldFile]) -> dict[Path, str]:
    """Write files that do not exist yet, all of them or none, and record them. Return ``wrote`` for each path."""
    existing = [name for name in files if (folder / name).exists()]
    if existing:
        raise UsageError(
            f"{folder / existing[0]} already exists: nothing was written; "
            "remove or rename the file to have it written again"
        )
    record = read_record(folder) or ScaffoldRecord(opsdk=VERSION, files={})
    texts = dict[str, ScaffoldFile]()
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = formatted(folder, name, file.rendered(name) or "")
        path.write_text(text, encoding="utf-8")
        texts[name] = ScaffoldFile(template=file.template, values=file.values, text=text)
    record.with_files(texts).write(folder)
    return {folder / name: "wrote" for name in files}
