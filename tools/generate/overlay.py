"""What a version of Kubernetes changes in the documents of the default one: kept in ``sources/vX.Y``. Pure.

``schemas.json`` and ``protobuf-fields.json`` have the names that are gone and the entries that are new or differ.
``discovery.json`` has the order of the groups, and the groups that are new or differ. ``structs.txt`` and
``columns.jsonl`` have the form of the files in ``sources/``, with the structs and the kinds that are new or differ;
``unstable.jsonl`` with the alpha and beta kinds and the types that are new or differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.generate.column_facts import KindColumns
from tools.generate.facts import Facts
from tools.generate.openapi import Document, OpenApi
from tools.generate.struct_facts import Package, Packages
from tools.generate.unstable import UnstableKinds

Entries = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Overlay:
    """The changes of one version."""

    version: str
    """The release, such as ``v1.37.0``."""
    schemas: Entries
    protobuf: Entries
    discovery: Entries
    packages: Packages
    columns: tuple[KindColumns, ...]
    gates: Entries
    """The feature gates of fields that the default version lacks, by type and field. They are off by default."""
    unstable: UnstableKinds
    """The alpha and beta kinds, and their types, that are new or differ."""

    @property
    def minor(self) -> str:
        """The minor version: ``1.37``."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])


def difference_of(base: Entries, other: Entries) -> dict[str, Any]:
    """Return the names that only `base` has, and the entries of `other` that are new or differ.

    >>> difference_of({"a": 1, "b": 2}, {"b": 3, "c": 4})
    {'removed': ['a'], 'changed': {'b': 3, 'c': 4}}
    """
    return {
        "removed": [name for name in base if name not in other],
        "changed": {name: value for name, value in other.items() if base.get(name) != value},
    }


def applied(base: Entries, changes: Entries) -> dict[str, Any]:
    """Return the entries of a version, by name."""
    removed = set(changes["removed"])
    return dict(sorted(({k: v for k, v in base.items() if k not in removed} | changes["changed"]).items()))


def discovery_difference(base: list[Entries], other: list[Entries]) -> dict[str, Any]:
    """Return the order of the groups, and the groups that are new or differ."""
    known = {_name(group): group for group in base}
    return {
        "order": [_name(group) for group in other],
        "changed": {_name(group): group for group in other if known.get(_name(group)) != group},
    }


def gates_of_new_fields(base: Entries, gates: Entries) -> dict[str, Any]:
    """Return the gates of the fields that the types of the default version lack.

    A field that one minor version has and the other lacks belongs to a gate that is alpha in the first.
    """
    found = {}
    for name, fields in gates.items():
        known = base.get(name, {}).get("properties")
        new = {field: gate for field, gate in fields.items() if known is not None and field not in known}
        if new:
            found[name] = new
    return found


def render_gates(gates: Entries) -> str:
    """Return the text of ``gates.txt``: a line for each type, with ``field=gate`` for its fields."""
    lines = (
        " ".join((name, *(f"{field}={gate}" for field, gate in sorted(fields.items()))))
        for name, fields in sorted(gates.items())
    )
    return "".join(f"{line}\n" for line in lines)


def struct_difference(base: Packages, other: Packages) -> Packages:
    """Return the structs and the named types that are new or differ, by package."""
    found = {}
    for path, package in other.items():
        old = base.get(path) or Package()
        structs = {name: fields for name, fields in package.structs.items() if old.structs.get(name) != fields}
        named = {name: text for name, text in package.named.items() if old.named.get(name) != text}
        imports = {alias: where for alias, where in package.imports.items() if old.imports.get(alias) != where}
        if structs or named or imports:
            found[path] = Package(imports, named, structs)
    return found


def documents(base: OpenApi, overlay: Overlay) -> OpenApi:
    """Return the documents of a version."""
    schemas = applied(base.schemas.content["components"]["schemas"], overlay.schemas)
    content = {"info": {"version": overlay.version}, "components": {"schemas": schemas}}
    groups = {_name(group): group for group in base.discovery.content["apis"]["items"]} | overlay.discovery["changed"]
    discovery = {
        "api": base.discovery.content["api"],
        "apis": {"items": [groups[name] for name in overlay.discovery["order"]]},
    }
    protobuf = applied(base.protobuf.content, overlay.protobuf)
    named = f"v{overlay.minor}"
    return OpenApi(
        Document(f"{named}/schemas.json", content),
        Document(f"{named}/discovery.json", discovery),
        Document(f"{named}/protobuf-fields.json", protobuf),
    )


def facts_of(base: Facts, overlay: Overlay) -> Facts:
    """Return the facts of a version."""
    packages = dict(base.packages)
    for path, package in overlay.packages.items():
        old = packages.get(path) or Package()
        packages[path] = Package(
            {**old.imports, **package.imports}, {**old.named, **package.named}, {**old.structs, **package.structs}
        )
    own = {(kind.group, kind.kind) for kind in overlay.columns}
    columns = (*(kind for kind in base.columns if (kind.group, kind.kind) not in own), *overlay.columns)
    return replace(base, packages=packages, columns=columns)


def render_changes(version: str, changes: Entries) -> str:
    """Return the text of a JSON source: a line for each entry."""
    lines = [f'"version": {json.dumps(version)}']
    for key, value in changes.items():
        if isinstance(value, Mapping):
            entries = ",\n".join(f"{json.dumps(name)}: {_compact(entry)}" for name, entry in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{entries}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=False)


def _name(group: Entries) -> str:
    return str(group["metadata"].get("name", ""))
