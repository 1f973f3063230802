"""``opsdk generate manifests`` and ``opsdk package``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opsdk.api.rbac.v1 import PolicyRule
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.generate.files import check_files, with_hash, write_all, write_generated
from opsdk.cli.loading import OperatorArgument, load_operator
from opsdk.cli.output import Output, OutputFormat
from opsdk.cli.package.bundle import bundle_files
from opsdk.cli.package.containerfile import BASE_IMAGE, IGNORED_FILES, LOCK_FILE, containerfile
from opsdk.cli.package.helm import chart_files
from opsdk.cli.package.inputs import package_inputs
from opsdk.cli.package.tree import config_files
from opsdk.cli.target import OldestOption
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject


def manifests(
    *,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="output folder, for kubectl apply -k")] = Path(
        "config"
    ),
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    oldest: OldestOption = "",
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit with status 1 if a file differs")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Write CRDs, RBAC, Deployment, Services, policies and webhooks of the project's operator.

    With --for, exits with status 1 and writes nothing if a server of that version would not accept a part of the CRDs,
    or lacks the kind of a policy.

    opsdk generate manifests && kubectl apply -k config
    """
    parts = package_inputs()
    if oldest:
        from opsdk.cli.generate.definitions import check_accepted  # noqa: PLC0415 - brings the checks of the API server

        check_accepted(parts.definitions, oldest, parts.policies)
    files = config_files(parts.workload, parts.definitions, parts.rbac, parts.configurations, parts.policies)
    command = "opsdk generate manifests"
    if check:
        check_files({folder / path: with_hash(text, command=command) for path, text in files.items()}, output)
    else:
        write_all(folder, files, command=command, output=output, force=force)


def webhooks() -> None:
    """Print the webhook configurations of the project's operator.

    opsdk generate webhooks | kubectl apply -f -
    """
    print(to_yaml(package_inputs().configurations), end="")


def policies(operator: OperatorArgument = "") -> None:
    """Print the admission policies of an operator and their bindings.

    opsdk generate policies | kubectl apply -f -
    """
    print(to_yaml(load_operator(operator).admission_policies()), end="")


def package(
    *,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="output folder")] = Path("dist"),
    base_image: Annotated[
        str, typer.Option(metavar="IMAGE", help="base image; NAME@sha256:DIGEST pins it")
    ] = BASE_IMAGE,
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Package the project's operator: Containerfile, one YAML file, kustomize folder, Helm chart and OLM bundle.

    opsdk package && podman build -t demo:latest -f dist/Containerfile .
    """
    parts = package_inputs()
    workload, definitions = parts.workload, parts.definitions
    config = config_files(workload, definitions, parts.rbac, parts.configurations, parts.policies)
    # kubectl apply -f keeps the order of the file.
    first = (*(path for path in config if path.startswith("crd/")), "namespace.yaml", "rbac.yaml")
    last = sorted(config.keys() - {*first, "kustomization.yaml", "service_monitor.yaml"})
    whole = "---\n".join(config[path] for path in (*first, *last))
    # The Operator Lifecycle Manager grants permissions in all namespaces or in the operator's own.
    cluster_rules = parts.cluster_rules
    rules = {name: [_tree(rule) for rule in cluster_rules.policy_rules(name)] for name in cluster_rules.namespaces}
    if not (version := parts.project.version):
        raise UsageError(
            f"{parts.project.folder / 'pyproject.toml'} has no version, which the Helm chart and the OLM bundle need"
        )
    files = {
        "Containerfile": containerfile(
            workload.image,
            workload.package,
            base_image=base_image,
            locked=(parts.project.folder / LOCK_FILE).is_file(),
        ),
        # Docker's BuildKit and buildah prefer it to the .dockerignore of the project.
        "Containerfile.dockerignore": IGNORED_FILES,
        "install.yaml": whole,
        **{f"kustomize/{path}": text for path, text in config.items()},
        **{f"chart/{path}": text for path, text in chart_files(parts, version).items()},
        **{f"bundle/{path}": text for path, text in bundle_files(workload, definitions, rules, version).items()},
    }
    ignore_file = parts.project.folder / ".dockerignore"
    if not ignore_file.exists():
        write_generated(ignore_file, IGNORED_FILES, command="opsdk package")
        if output is OutputFormat.TEXT:
            print("wrote .dockerignore")
    write_all(folder, files, command="opsdk package", output=output, force=force)


def _tree(rule: PolicyRule) -> JsonObject:
    tree: JsonObject = to_builtins(rule)
    return tree
