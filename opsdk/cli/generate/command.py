"""``opsdk generate``: CRDs from classes, classes from CRDs, OpenAPI documents or a live server, roles of operators."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from opsdk.cli.generate.models import model_files
from opsdk.cli.generate.openapi import inline_definitions
from opsdk.cli.generate.types import TypeGenerator
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject


def add_parser(commands: Any) -> None:
    """Add ``generate`` to the command's parser."""
    generate = commands.add_parser("generate", help="make CRDs from classes, classes from CRDs, roles from operators")
    actions = generate.add_subparsers(dest="action", required=True)
    crd = actions.add_parser("crd", help="CustomResourceDefinitions from classes")
    crd.add_argument("classes", nargs="+", metavar="MODULE:CLASS", help="all versions of each kind")
    crd.add_argument("--output", type=Path, metavar="FOLDER", help="write one file for each CRD; default: print YAML")
    crd.add_argument("--force", action="store_true", help="overwrite files that were edited")
    crd.set_defaults(run=run_crd)
    models = actions.add_parser("models", help="typed classes from CRDs, OpenAPI v3 documents or a live server")
    models.add_argument("--crd", action="append", type=Path, default=[], metavar="FILE", help="CRDs in YAML or JSON")
    models.add_argument("--openapi", action="append", type=Path, default=[], metavar="FILE", help="OpenAPI v3 JSON")
    models.add_argument("--cluster", action="store_true", help="read the documents of the server in the kubeconfig")
    models.add_argument("--group", action="append", default=[], help="with --cluster: only these groups")
    models.add_argument("--output", type=Path, required=True, help="the folder of the package to write into")
    models.add_argument("--package", default="", help="that package's dotted name; default: the folder's name")
    models.set_defaults(run=run_models)
    rbac = actions.add_parser("rbac", help="service account, roles and bindings of an operator")
    rbac.add_argument("operator", metavar="MODULE:OPERATOR", help="an Operator, a function that returns one, or rules")
    rbac.add_argument("--name", default="", help="of roles and bindings; default: the operator's name")
    rbac.add_argument("--namespace", default="default", help="of service account and Lease; default: default")
    rbac.add_argument("--service-account", default="", metavar="NAME", help="default: the name of the roles")
    rbac.add_argument("--create-namespace", action="store_true", help="begin with the manifest of the namespace")
    rbac.add_argument(
        "--flag", action="append", default=[], metavar="FLAG", help="of the operator, without dashes: leader-elect"
    )
    rbac.add_argument("--check", type=Path, metavar="FILE", help="print nothing; end with 1 if the file differs")
    rbac.set_defaults(run=run_rbac)


def run_crd(arguments: argparse.Namespace) -> int:
    """Print the definitions, or write one file for each and print its path."""
    from opsdk.cli.generate import definitions  # noqa: PLC0415 - brings the checks of the API server

    crds = definitions.definitions_of([definitions.load_class(name) for name in arguments.classes])
    if arguments.output is None:
        print("---\n".join(definitions.to_yaml(crd) for crd in crds), end="")
        return 0
    for crd in crds:
        print(definitions.write_definition(crd, arguments.output, force=arguments.force))
    return 0


def run_rbac(arguments: argparse.Namespace) -> int:
    """Print the manifests of an operator, or compare them with a file."""
    from opsdk.cli.generate import rbac  # noqa: PLC0415 - start-up time: brings the operator

    return rbac.run_rbac(arguments)


def run_models(arguments: argparse.Namespace) -> int:
    """Write the files; prints one line for each."""
    if sum((bool(arguments.crd), bool(arguments.openapi), arguments.cluster)) != 1:
        raise UsageError("name the documents: --crd FILE or --openapi FILE (may be repeated), or --cluster")
    files: dict[str, str] = {}
    definitions: list[JsonObject] = []
    schemas: Mapping[str, Any] = {}
    if arguments.crd:
        source = ", ".join(path.name for path in arguments.crd)
        definitions = [crd for path in arguments.crd for crd in read_definitions(path)]
    elif arguments.cluster:
        source = "a live server"
        definitions, schemas = _published(arguments.group)
    else:
        schemas, source = _schemas(arguments.openapi)
        definitions, schemas = inline_definitions(schemas)
    if schemas:
        # Modules of several groups import each other by the name of their package.
        files = TypeGenerator(schemas, package=arguments.package or arguments.output.name, source=source).files()
    files |= model_files(definitions, source=source)
    if not files:
        raise UsageError(f"{source} has no kinds that opsdk does not have already")
    for path, text in files.items():
        target = arguments.output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(target)
    return 0


def read_definitions(path: Path) -> Sequence[JsonObject]:
    """Return the CustomResourceDefinitions in a YAML or JSON file; other objects are skipped.

    Raises:
        UsageError: the file cannot be read, or has no definition with schemas.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
        crds = [d for d in documents if isinstance(d, dict) and d.get("kind") == "CustomResourceDefinition"]
        complete = [d for d in crds if all("openAPIV3Schema" in v["schema"] for v in d["spec"]["versions"])]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} has no CustomResourceDefinitions of apiextensions.k8s.io/v1: {error!r}") from error
    if not complete:
        raise UsageError(f"{path} has no CustomResourceDefinitions of apiextensions.k8s.io/v1 with schemas")
    return complete


def _published(groups: Sequence[str]) -> tuple[list[JsonObject], Mapping[str, Any]]:
    """Return the definitions of a live server, and the schemas of the kinds without definition."""
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
            raise UsageError(f"{path} is no OpenAPI v3 document in JSON: {error!r}") from error
    version = re.search(r"v\d+\.\d+", " ".join(p.name for p in paths))
    return schemas, f"Kubernetes {version.group()}" if version else ", ".join(p.name for p in paths)
