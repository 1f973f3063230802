"""``python -m tools.generate``: writes every generated file, or compares them (``--check``)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.generate.columns import served_kinds
from tools.generate.compare import changed, difference, obsolete
from tools.generate.errors import GenerateError
from tools.generate.facts import FOLDER, Texts, extract_facts, minor, parse_facts, read_facts, version_of_checkout
from tools.generate.openapi import OpenApi, read_openapi
from tools.generate.outputs import Outputs, outputs, outputs_of_root
from tools.generate.resources import resource_rows

_ROOT = Path(__file__).parents[2]
_SHOWN_FILES = 5
"""As many files are shown with the lines that differ."""


def main(argv: list[str] | None = None, root: Path = _ROOT) -> int:
    """Run the tool on the repository at `root`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument(
        "--openapi",
        type=Path,
        default=_ROOT / FOLDER / "openapi",
        metavar="FOLDER",
        help="schemas, discovery documents and protobuf field numbers of an API server (default: %(default)s)",
    )
    parser.add_argument(
        "--kubernetes", type=Path, metavar="CHECKOUT", help="renew the facts in sources/ from kubernetes/kubernetes"
    )
    parser.add_argument("--kubernetes-version", metavar="TAG", help="the version of CHECKOUT, if git does not tell it")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    arguments = parser.parse_args(argv)
    try:
        return _check(root, arguments) if arguments.check else _write(root, arguments)
    except GenerateError as problem:
        print(f"generate: {problem}", file=sys.stderr)
        return 1


def _write(root: Path, arguments: argparse.Namespace) -> int:
    texts = _everything(root, arguments)
    paths = changed(root, texts)
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts[path])
        print(f"wrote {path}")
    print(f"generate: {len(texts)} files, {len(paths)} of them changed")
    for path in obsolete(root, texts):
        print(f"generate: {path} is not generated any more: delete it")
    return 0


def _check(root: Path, arguments: argparse.Namespace) -> int:
    texts = _everything(root, arguments)
    paths = changed(root, texts)
    for path in paths[:_SHOWN_FILES]:
        print(f"generate: {path} is not what the generator makes:", *difference(root, path, texts[path]), sep="\n  ")
    for path in paths[_SHOWN_FILES:]:
        print(f"generate: {path} is not what the generator makes")
    stale = obsolete(root, texts)
    for path in stale:
        print(f"generate: {path} is not generated any more")
    if paths or stale:
        print("generate: run `make generate`, and commit what it writes")
        return 1
    print(f"generate: {len(texts)} files are as generated")
    return 0


def _everything(root: Path, arguments: argparse.Namespace) -> Outputs:
    """Every generated file; with a checkout, the files in ``sources/`` too."""
    openapi = read_openapi(arguments.openapi)
    if arguments.kubernetes is None:
        return {**outputs(openapi, parse_facts(read_facts(root))), **outputs_of_root(root)}
    facts = _extract(openapi, arguments.kubernetes, arguments.kubernetes_version)
    sources = {f"{FOLDER.as_posix()}/{name}": facts[name] for name in facts}
    return {**outputs(openapi, parse_facts(facts)), **outputs_of_root(root), **sources}


def _extract(openapi: OpenApi, checkout: Path, version: str | None) -> Texts:
    version = version or version_of_checkout(checkout)
    if minor(version) != minor(openapi.version):
        raise GenerateError(
            f"{checkout} is {version}, the OpenAPI documents are of {openapi.version}: give one minor version"
        )
    schemas = openapi.schemas.content["components"]["schemas"]
    names = [name for name, schema in schemas.items() if "properties" in schema]
    return extract_facts(checkout, names, served_kinds(resource_rows(openapi.discovery.content)), version)


if __name__ == "__main__":
    sys.exit(main())
