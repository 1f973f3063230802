"""``opsdk generate``: CRDs from classes, classes from CRDs, OpenAPI documents or a live server, roles of operators."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.builder.operator import Operator
from opsdk.cli.generate import rbac as generator
from opsdk.cli.generate.files import check_files, write_all
from opsdk.cli.generate.models import model_files
from opsdk.cli.generate.openapi import inline_definitions
from opsdk.cli.generate.sources import read_definitions, remote_of
from opsdk.cli.generate.types import TypeGenerator
from opsdk.cli.output import Output, OutputFormat, print_result
from opsdk.cli.target import OldestOption
from opsdk.errors import UsageError
from opsdk.rbac.manifests import RbacNames
from opsdk.structured_merge.value import JsonObject


def crd(
    classes: Annotated[
        list[str], typer.Argument(metavar="MODULE:CLASS...", help="the classes, with all versions of each kind")
    ],
    *,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="write one file for each CRD; default: print YAML")
    ] = None,
    oldest: OldestOption = "",
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Generate CustomResourceDefinitions from classes.

    With --for, exits with status 1 and writes nothing if a server of that version would not accept a part of them.

    opsdk generate crd website.api:Website --folder config/crd

    opsdk generate crd website.api:Website --for 1.31
    """
    from opsdk.cli.generate import definitions  # noqa: PLC0415 - brings the checks of the API server

    crds = definitions.definitions_of([definitions.load_class(name) for name in classes])
    if oldest:
        definitions.check_accepted(crds, oldest)
    if folder is None:
        text = to_yaml(crds)
        print_result(output, list(crds), [text.rstrip("\n")])
        return
    files = {definitions.file_name(definition): to_yaml([definition]) for definition in crds}
    write_all(folder, files, command="opsdk generate crd", output=output, force=force)


def rbac(
    operator: Annotated[
        str, typer.Argument(metavar="MODULE:OPERATOR", help="an Operator, a function that returns one, or rules")
    ],
    *,
    name: Annotated[str, typer.Option(help="name of roles and bindings; default: the operator's name")] = "",
    namespace: Annotated[str, typer.Option(help="namespace of service account and Lease")] = "default",
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="name of the service account; default: the name of the roles")
    ] = "",
    create_namespace: Annotated[bool, typer.Option("--create-namespace", help="also print the Namespace")] = False,
    flag: Annotated[
        list[str] | None, typer.Option(metavar="FLAG", help="operator flag without dashes, such as leader-elect")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="compare with this file; exit with status 1 if it differs")
    ] = None,
    output: Annotated[OutputFormat, typer.Option(help="output format of --check: text or json")] = OutputFormat.TEXT,
) -> None:
    """Print the service account, the roles and the bindings of an operator.

    opsdk generate rbac website.operator:make_operator --flag leader-elect > config/rbac.yaml
    """
    target = generator.load_target(operator)
    name = name or (target.name if isinstance(target, Operator) else "")
    if not name:
        raise UsageError("a list of rules has no name: pass --name")
    names = RbacNames(
        name=name, namespace=namespace, service_account=service_account, create_namespace=create_namespace
    )
    text = generator.rbac_yaml(target, names, flag or ())
    if check is not None:
        check_files({check: text}, output)
    else:
        print(text, end="")


def models(
    *,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="folder of the generated package")],
    crd: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE", help="CRDs: a file, folder or URL, or github:OWNER/NAME@TAG/FOLDER of a project's release"
        ),
    ] = None,
    openapi: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="file with an OpenAPI v3 document in JSON")
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="read CRDs and OpenAPI from the server in the kubeconfig")
    ] = False,
    group: Annotated[list[str] | None, typer.Option(help="with --cluster: only these groups")] = None,
    package: Annotated[str, typer.Option(help="dotted name of the package; default: the folder's name")] = "",
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Generate typed classes from CRDs, OpenAPI v3 documents or a live server.

    opsdk generate models --crd certificates.yaml --folder website/certmanager

    opsdk generate models --crd github:cert-manager/cert-manager@v1.18.2/deploy/crds --folder website/certmanager
    """
    if sum((bool(crd), bool(openapi), cluster)) != 1:
        raise UsageError("pass exactly one source: --crd SOURCE or --openapi FILE (repeatable), or --cluster")
    files: dict[str, str] = {}
    definitions: list[JsonObject] = []
    schemas: Mapping[str, Any] = {}
    if crd:
        source = ", ".join(each if remote_of(each) else Path(each).name for each in crd)
        definitions = [definition for each in crd for definition in read_definitions(each)]
    elif cluster:
        source = "a live server"
        definitions, schemas = _published(group or ())
    else:
        schemas, source = _schemas(openapi or ())
        definitions, schemas = inline_definitions(schemas)
    if schemas:
        # Modules of different groups import each other by package name.
        files = TypeGenerator(schemas, package=package or folder.name, source=source).files()
    files |= model_files(definitions, source=source)
    if not files:
        raise UsageError(f"{source} has no kinds besides those that opsdk already includes")
    write_all(folder, files, command="opsdk generate models", output=output, force=force)


def _published(groups: Sequence[str]) -> tuple[list[JsonObject], Mapping[str, Any]]:
    """Return the CustomResourceDefinitions of a live server, and the schemas of kinds without one."""
    from opsdk.cli.generate.cluster import fetch_definitions, fetch_schemas  # noqa: PLC0415 - brings the HTTP stack

    definitions = list(fetch_definitions(groups))
    defined = {crd["spec"]["group"] for crd in definitions}
    if groups and defined.issuperset(groups):
        return definitions, {}
    schemas = fetch_schemas([group for group in groups if group not in defined])
    return definitions, {
        name: schema
        for name, schema in schemas.items()
        if not any(gvk["group"] in defined for gvk in schema.get("x-kubernetes-group-version-kind", ()))
    }


def _schemas(paths: Sequence[Path]) -> tuple[Mapping[str, Any], str]:
    schemas: JsonObject = {}
    for path in paths:
        try:
            document = json.loads(path.read_text())
            schemas |= document["components"]["schemas"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not an OpenAPI v3 document in JSON: {error!r}") from error
    version = re.search(r"v\d+\.\d+", " ".join(p.name for p in paths))
    return schemas, f"Kubernetes {version.group()}" if version else ", ".join(p.name for p in paths)
