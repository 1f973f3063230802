"""Every generated file of the repository: its path and its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path

from envtest.data.table import without_header
from tools.generate.alerts import PAGE as ALERTS
from tools.generate.alerts import render_alerts
from tools.generate.behaviours import PAGE, read_behaviours, read_proofs, render_behaviours
from tools.generate.blocking import MODULES as BLOCKING
from tools.generate.blocking import render_blocking
from tools.generate.children import render_children
from tools.generate.columns import render_columns
from tools.generate.facts import COLUMNS, FOLDER, POLICY, STRUCTS, UNSTABLE, Facts
from tools.generate.fields import render_fields
from tools.generate.header import Provenance
from tools.generate.kinds import render_kinds
from tools.generate.messages import render_messages
from tools.generate.openapi import OpenApi
from tools.generate.overlay import Overlay, documents
from tools.generate.public_api import LIST as PUBLIC_API
from tools.generate.public_api import read_products, render_public_api
from tools.generate.rbac import render_rbac
from tools.generate.reference import FOLDER as REFERENCE
from tools.generate.reference import render_reference
from tools.generate.resources import render_resources, resource_rows
from tools.generate.schemas import render_schemas
from tools.generate.trace_diagram import render_trace_diagram
from tools.generate.typed_kinds import TypedKinds, with_new_kinds
from tools.generate.unstable import with_unstable
from tools.generate.versions import inputs_of, tables_of

TABLES = "envtest/data"
CHILDREN = "opsdk/children/data/types.txt"
KINDS = "opsdk/api"

Outputs = Mapping[str, str]
"""Texts by their paths from the root of the repository."""


def outputs_of_tests(root: Path) -> Outputs:
    """What is made of the tests and the public modules of the repository at `root`: nothing without their data."""
    behaviours, products = read_behaviours(root), read_products(root)
    texts = {PAGE: render_behaviours(behaviours, read_proofs(root))} if behaviours else {}
    return texts | ({PUBLIC_API: render_public_api(root, products)} if products else {})


def outputs_of_root(root: Path) -> Outputs:
    """What is made of the repository at `root` without documents of Kubernetes."""
    return {**outputs_of_tests(root), **outputs_of_classes(root), **outputs_of_program(root)}


def outputs_of_classes(root: Path) -> Outputs:
    """What is made of async classes: nothing if the repository at `root` does not have them."""
    return {each.target: render_blocking(root, each) for each in BLOCKING if (root / each.source).is_file()}


def outputs_of_program(root: Path) -> Outputs:
    """What is made of the program's own tables: nothing if the repository at `root` has no reference."""
    return (
        {**render_reference(), ALERTS: render_alerts(), **render_trace_diagram()} if (root / REFERENCE).is_dir() else {}
    )


def outputs_of_facts(facts: Facts) -> Outputs:
    """What is made of the repository's own sources alone."""
    return {_table("rbac"): _provenance("rbac", [POLICY], facts.versions[POLICY]).header() + render_rbac(facts.policy)}


def tables(openapi: OpenApi, facts: Facts) -> dict[str, str]:
    """Return the tables of a version of Kubernetes by name."""
    schemas = openapi.schemas.content["components"]["schemas"]
    rows = list(resource_rows(openapi.discovery.content))
    named = openapi.schemas.name, openapi.discovery.name, openapi.protobuf.name
    made = {
        "schemas": ([named[0]], openapi.version, render_schemas(schemas)),
        "resources": ([named[1]], openapi.discovery.version, render_resources(openapi.discovery.content)),
        "messages": ([named[2]], openapi.protobuf.version, render_messages(openapi.protobuf.content)),
        "fields": ([STRUCTS, named[0]], facts.versions[STRUCTS], render_fields(schemas, facts.packages)),
        "columns": ([COLUMNS, named[1]], facts.versions[COLUMNS], render_columns(facts.columns, rows)),
    }
    return {
        name: _provenance(name, sources, version).header() + text for name, (sources, version, text) in made.items()
    }


def outputs_of_version(base: Mapping[str, str], whole: Mapping[str, str], overlay: Overlay) -> Outputs:
    """Return the tables of another version, as differences from those of the default version."""
    made = tables_of(whole, base, overlay)
    return {_table(f"v{overlay.minor}/{name}"): text for name, text in made.items()}


def _with_kinds_of(typed: TypedKinds, openapi: OpenApi) -> TypedKinds:
    schemas = openapi.schemas.content["components"]["schemas"]
    return with_new_kinds(typed, TypedKinds(schemas, list(resource_rows(openapi.discovery.content))))


def outputs(openapi: OpenApi, facts: Facts, overlays: Iterable[Overlay] = ()) -> Outputs:
    """Every generated file."""
    schemas = openapi.schemas.content["components"]["schemas"]
    rows = list(resource_rows(openapi.discovery.content))
    named = openapi.schemas.name, openapi.discovery.name
    made = tables(openapi, facts)
    texts = {_table(name): text for name, text in made.items()}
    typed = TypedKinds(schemas, rows)
    unstable = [facts.unstable]
    fields = [without_header(made["fields"])]
    for overlay in overlays:
        whole = tables(*inputs_of(openapi, facts, overlay))
        texts |= outputs_of_version(made, whole, overlay)
        typed = _with_kinds_of(typed, documents(openapi, overlay))
        fields.append(without_header(whole["fields"]))
        unstable.append(overlay.unstable)
    children = _provenance("children", [named[0], named[1], STRUCTS], openapi.version).header()
    texts[CHILDREN] = children + render_children(typed.schemas, typed.rows, fields)
    typed = reduce(with_unstable, unstable, typed)
    kinds = render_kinds(typed.schemas, typed.rows, _provenance("kinds", [*named, UNSTABLE], openapi.version))
    return {**outputs_of_facts(facts), **texts, **{f"{KINDS}/{path}": text for path, text in kinds.items()}}


def _table(name: str) -> str:
    return f"{TABLES}/{name}.txt"


def _provenance(module: str, sources: list[str], version: str) -> Provenance:
    own = (STRUCTS, COLUMNS, POLICY)
    named = [f"{FOLDER.as_posix()}/{source}" if source in own else source for source in sources]
    return Provenance(f"tools/generate/{module}.py", named, version)
