"""Versions besides the default one: sources in ``sources/vX.Y``, tables in ``envtest/data/vX.Y``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envtest.data.table import blocks, difference, without_header
from opsdk.cli.generate.names import stability_of
from tools.generate.column_facts import parse_columns_facts, render_columns_facts
from tools.generate.errors import GenerateError
from tools.generate.extract.go_structs import read_structs
from tools.generate.extract.protobuf import read_protobuf
from tools.generate.extract.published import read_gates, read_published, read_unstable
from tools.generate.facts import COLUMNS, FOLDER, STRUCTS, UNSTABLE, Facts, minor
from tools.generate.header import Provenance, version_of
from tools.generate.openapi import OpenApi
from tools.generate.overlay import (
    Overlay,
    difference_of,
    discovery_difference,
    documents,
    facts_of,
    gates_of_new_fields,
    render_changes,
    render_gates,
    struct_difference,
)
from tools.generate.resources import resource_rows
from tools.generate.struct_facts import Packages, go_type_of, parse_structs, render_structs
from tools.generate.unstable import parse_unstable, render_unstable, unstable_difference

SCHEMAS, PROTOBUF, DISCOVERY, GATES = "schemas.json", "protobuf-fields.json", "discovery.json", "gates.json"
_SOURCES = (SCHEMAS, PROTOBUF, DISCOVERY, GATES, STRUCTS, COLUMNS, UNSTABLE)
_AGGREGATED = Path("api/discovery/aggregated_v2.json")
_MAKER = "make generate KUBERNETES=CHECKOUT KUBERNETES_VERSION=VERSION"
_READ = {
    "go_structs": "staging/src/k8s.io",
    "printers": "pkg/printers/internalversion/printers.go",
    "published": "api/openapi-spec/swagger.json and the types in staging/src/k8s.io",
}
"""What each module reads of a checkout."""
_MODULES = {"gates": "overlay"}
"""Tables of a version alone, and the module that makes each."""
_WHOLE = frozenset({"resources"})
"""Tables whose order matters: a version has the whole table."""


def read_overlays(root: Path, *, without: str = "") -> Iterator[Overlay]:
    """Yield the versions whose sources the repository at `root` has, except `without`, such as ``v1.37``."""
    for folder in sorted((root / FOLDER).glob("v*.*")):
        if folder.name == without:
            continue
        try:
            yield parse_overlay({name: (folder / name).read_text() for name in _SOURCES})
        except (OSError, ValueError) as error:
            raise GenerateError(f"{folder} is not whole: {error}; make it again with `{_MAKER}`") from error


def parse_overlay(texts: Mapping[str, str]) -> Overlay:
    """Return the changes in the sources of a version, given by their names."""
    structs = without_header(texts[STRUCTS])
    return Overlay(
        version_of(texts[STRUCTS]),
        schemas=json.loads(texts[SCHEMAS]),
        protobuf=json.loads(texts[PROTOBUF]),
        discovery=json.loads(texts[DISCOVERY]),
        packages=parse_structs(structs) if structs else {},
        columns=tuple(parse_columns_facts(without_header(texts[COLUMNS]))),
        gates=json.loads(texts[GATES])["fields"],
        unstable=parse_unstable(without_header(texts[UNSTABLE])),
    )


def tables_of(tables: Mapping[str, str], base: Mapping[str, str], overlay: Overlay) -> dict[str, str]:
    """Return the tables of a version by name, as differences from the default version's."""
    texts = {}
    for name, text in tables.items():
        if name in _WHOLE:
            texts[name] = without_header(text)
        else:
            lines = difference(blocks(without_header(base[name])), blocks(without_header(text)))
            separator = "\n\n" if name == "columns" else "\n"
            texts[name] = separator.join(lines) + "\n"
    texts["gates"] = render_gates(overlay.gates)
    return {
        name: Provenance(
            f"tools/generate/{_MODULES.get(name, name)}.py",
            [f"{FOLDER.name}/v{overlay.minor} over the default version"],
            overlay.version,
        ).header()
        + text
        for name, text in texts.items()
    }


def inputs_of(openapi: OpenApi, facts: Facts, overlay: Overlay) -> tuple[OpenApi, Facts]:
    """Return the whole documents and facts of a version."""
    return documents(openapi, overlay), facts_of(facts, overlay)


def extract_version(checkout: Path, openapi: OpenApi, facts: Facts, version: str, columns: str) -> dict[str, str]:
    """Return the sources of a version from a checkout, by their path from the root of the repository.

    Args:
        checkout: kubernetes/kubernetes, or a folder with its ``staging/src/k8s.io`` and ``api``.
        openapi: the documents of the default version.
        facts: the facts of the default version.
        version: the release, such as ``v1.37.0``.
        columns: the text of the version's columns that was there before; empty without one.
    """
    try:
        groups = _stable(json.loads((checkout / _AGGREGATED).read_text()))
        rows = resource_rows({"api": openapi.discovery.content["api"], "apis": {"items": groups}})
        served = {(row["group"], row["version"]) for row in rows}
        schemas = read_published(checkout, served)
        structs = read_structs(checkout, [name for name, schema in schemas.items() if "properties" in schema])
        _check_structs(checkout, schemas, structs)
        gates = gates_of_new_fields(openapi.schemas.content["components"]["schemas"], read_gates(checkout, schemas))
        messages = _json(read_protobuf(checkout))
        unstable = read_unstable(checkout, set(openapi.schemas.content["components"]["schemas"]))
    except OSError as error:
        raise GenerateError(f"{checkout} is not a whole checkout of kubernetes/kubernetes: {error}") from error
    stored = {name: fields for name, fields in openapi.protobuf.content.items() if ".audit." not in name}
    texts = {
        SCHEMAS: render_changes(version, difference_of(openapi.schemas.content["components"]["schemas"], schemas)),
        PROTOBUF: render_changes(version, difference_of(stored, messages)),
        DISCOVERY: render_changes(version, discovery_difference(openapi.discovery.content["apis"]["items"], groups)),
        GATES: render_changes(version, {"fields": gates}),
        STRUCTS: _headed("go_structs", version, render_structs(struct_difference(facts.packages, structs))),
        UNSTABLE: _headed("published", version, render_unstable(unstable_difference(facts.unstable, unstable))),
        COLUMNS: columns or _headed("printers", version, render_columns_facts(())),
    }
    folder = FOLDER / f"v{minor(version).removeprefix('v')}"
    return {f"{folder.as_posix()}/{name}": text for name, text in texts.items()}


def _check_structs(checkout: Path, schemas: Mapping[str, Any], structs: Packages) -> None:
    for name, schema in schemas.items():
        path, struct = go_type_of(name)
        if "properties" in schema and (path not in structs or struct not in structs[path].structs):
            raise GenerateError(
                f"{checkout}: the OpenAPI document has {name}, and the Go sources lack it: take both of one release"
            )


def _headed(module: str, version: str, text: str) -> str:
    return Provenance(f"tools/generate/extract/{module}.py", [_READ[module]], version, _MAKER).header() + text


def _stable(discovery: Any) -> list[Any]:
    """Return the groups with their stable versions, which a server serves by default."""
    groups = []
    for group in discovery["items"]:
        versions = [each for each in group["versions"] if stability_of(each["version"]) == "stable"]
        if versions:
            groups.append({**group, "versions": versions})
    return groups


def _json(value: Any) -> Any:
    """Return a value as it is after it was written to JSON: tuples are lists."""
    return json.loads(json.dumps(value))
