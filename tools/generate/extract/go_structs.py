"""The structs behind the served types: order, Go types and ``json`` tags of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from tools.generate.extract.go_source import GoFile, parse_go
from tools.generate.struct_facts import Package, Packages, StructField, go_type_of, local_types

STAGING = Path("staging/src")
_NOT_DECLARATIONS = re.compile(r"(_test|^zz_generated.*|^generated\.pb|swagger_doc_generated)\.go$")


def read_structs(checkout: Path, schemas: Iterable[str]) -> Packages:
    """The packages of `schemas`, cut down to the types that these reach."""
    wanted = {go_type_of(schema) for schema in schemas}
    packages: dict[str, Package] = {}
    reached: dict[str, set[str]] = {}
    while wanted:
        path, name = wanted.pop()
        package = packages.get(path) or packages.setdefault(path, _read_package(checkout / STAGING / path))
        if name not in reached.setdefault(path, set()):
            reached[path].add(name)
            wanted |= set(_uses(path, package, name))
    cut = {path: _cut(packages[path], names) for path, names in reached.items()}
    return {path: package for path, package in sorted(cut.items()) if package.named or package.structs}


def _read_package(folder: Path) -> Package:
    return _package([parse_go(path.read_text()) for path in go_files(folder)])


def go_files(folder: Path) -> list[Path]:
    """Return the files of a package that declare types."""
    return sorted(path for path in folder.glob("*.go") if not _NOT_DECLARATIONS.search(path.name))


def _package(files: Iterable[GoFile]) -> Package:
    imports: dict[str, str] = {}
    named: dict[str, str] = {}
    structs: dict[str, tuple[StructField, ...]] = {}
    for file in files:
        imports |= file.imports
        named |= file.named
        for name, fields in file.structs.items():
            structs[name] = tuple(_fields((field.name, field.type, field.json) for field in fields))
    return Package(imports, named, structs)


def _fields(declared: Iterable[tuple[str, str, str]]) -> Iterator[StructField]:
    for go_name, go_type, tag in declared:
        name, *options = tag.split(",")
        if name == "-":
            continue
        kept = frozenset(options) & {"omitempty", "omitzero"}
        yield StructField("" if not name and not go_name else name or go_name, go_type, kept)


def _uses(path: str, package: Package, name: str) -> Iterator[tuple[str, str]]:
    """Package path and name of each type that a declaration names."""
    types = [field.type for field in package.structs.get(name, ())]
    for text in [*types, package.named.get(name, "")]:
        for alias, used in local_types(text):
            if not alias:
                yield path, used
            elif "/" in package.imports.get(alias, ""):
                yield package.imports[alias], used


def _cut(package: Package, names: AbstractSet[str]) -> Package:
    structs = {name: fields for name, fields in sorted(package.structs.items()) if name in names}
    named = {name: text for name, text in sorted(package.named.items()) if name in names}
    texts = [*named.values(), *(field.type for fields in structs.values() for field in fields)]
    aliases = {alias for text in texts for alias, _ in local_types(text)}
    imports: Mapping[str, str] = {k: v for k, v in sorted(package.imports.items()) if k in aliases}
    return replace(package, imports=imports, named=named, structs=structs)
