"""``opsdk generate types``: typed kinds from OpenAPI v3 files or from a live server."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsdk.cli.generate.types import TypeGenerator
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject


def add_parser(commands: Any) -> None:
    """Add ``generate`` to the command's parser."""
    generate = commands.add_parser("generate", help="make source code from what a server publishes")
    what = generate.add_subparsers(dest="what", required=True)
    types = what.add_parser("types", help="typed classes for the kinds of an OpenAPI v3 document or a live server")
    types.add_argument("--openapi", action="append", type=Path, default=[], metavar="FILE", help="OpenAPI v3 JSON")
    types.add_argument("--cluster", action="store_true", help="read the documents of the server in the kubeconfig")
    types.add_argument("--group", action="append", default=[], help="with --cluster: only these groups")
    types.add_argument("--output", type=Path, required=True, help="the folder of the package to write into")
    types.add_argument("--package", required=True, help="that package's dotted name, e.g. my_operator.apis")
    types.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the files; prints one line for each."""
    schemas, source = _schemas(arguments)
    files = TypeGenerator(schemas, package=arguments.package, source=source).files()
    if not files:
        raise UsageError(f"{source} has no kinds that opsdk does not have already")
    for path, text in files.items():
        target = arguments.output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(target)
    return 0


def _schemas(arguments: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    if bool(arguments.openapi) == arguments.cluster:
        raise UsageError("name the documents: either --openapi FILE (may be repeated) or --cluster")
    if arguments.cluster:
        from opsdk.cli.generate.cluster import fetch_schemas  # noqa: PLC0415 - brings the whole HTTP stack

        return fetch_schemas(arguments.group), "a live server"
    found: JsonObject = {}
    for path in arguments.openapi:
        try:
            document = json.loads(path.read_text())
            found |= document["components"]["schemas"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is no OpenAPI v3 document in JSON: {error!r}") from error
    version = re.search(r"v\d+\.\d+", " ".join(p.name for p in arguments.openapi))
    return found, f"Kubernetes {version.group()}" if version else ", ".join(p.name for p in arguments.openapi)
