"""``python -m tools.generate``: writes every generated file, or compares them (``--check``)."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools.generate.columns import served_kinds
from tools.generate.compare import changed, difference, obsolete
from tools.generate.errors import GenerateError
from tools.generate.facts import (
    COLUMNS,
    FOLDER,
    Texts,
    extract_facts,
    minor,
    parse_facts,
    read_facts,
    version_of_checkout,
)
from tools.generate.openapi import OpenApi, read_openapi
from tools.generate.outputs import Outputs, outputs, outputs_of_root
from tools.generate.resources import resource_rows
from tools.generate.versions import extract_version, parse_overlay, read_overlays

_ROOT = Path(__file__).parents[2]
_VERSION = re.compile(r"v?(?P<minor>\d+\.\d+)(?P<patch>\.\d+)?")
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
        return {**outputs(openapi, parse_facts(read_facts(root)), read_overlays(root)), **outputs_of_root(root)}
    version = _version(arguments.kubernetes, arguments.kubernetes_version)
    if minor(version) != minor(openapi.version):
        return _other_version(root, openapi, arguments.kubernetes, version)
    facts = _extract(openapi, arguments.kubernetes, version)
    sources = {f"{FOLDER.as_posix()}/{name}": facts[name] for name in facts}
    return {**outputs(openapi, parse_facts(facts), read_overlays(root)), **outputs_of_root(root), **sources}


def _version(checkout: Path, version: str | None) -> str:
    """Return the release of a checkout, such as ``v1.37.0``."""
    if version is None:
        return version_of_checkout(checkout)
    if (match := _VERSION.fullmatch(version)) is None:
        raise GenerateError(f"KUBERNETES_VERSION={version} is not a version: write it like v1.37.0")
    return f"v{match['minor']}{match['patch'] or '.0'}"


def _other_version(root: Path, openapi: OpenApi, checkout: Path, version: str) -> Outputs:
    """Return the sources and the tables of a version besides the default one."""
    facts = parse_facts(read_facts(root))
    before = root / FOLDER / f"{minor(version)}" / COLUMNS
    columns = before.read_text() if before.is_file() else ""
    sources = extract_version(checkout, openapi, facts, version, columns)
    others = read_overlays(root, without=minor(version))
    own = parse_overlay({Path(path).name: text for path, text in sources.items()})
    return {**outputs(openapi, facts, [*others, own]), **outputs_of_root(root), **sources}


def _extract(openapi: OpenApi, checkout: Path, version: str) -> Texts:
    schemas = openapi.schemas.content["components"]["schemas"]
    names = [name for name, schema in schemas.items() if "properties" in schema]
    return extract_facts(checkout, names, served_kinds(resource_rows(openapi.discovery.content)), version)


if __name__ == "__main__":
    sys.exit(main())
