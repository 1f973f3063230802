"""The facts about Go structs, and the text form in which ``sources/`` keeps them. Pure.

A line for each declaration, and an indented one for each field; an embedded struct has the name ``+``::

    package k8s.io/api/core/v1
    import metav1 k8s.io/apimachinery/pkg/apis/meta/v1
    named PodPhase string
    struct PodStatus
      phase PodPhase omitempty
      startTime *metav1.Time omitempty
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_EMBEDDED = "+"
_NAME = re.compile(r"(?:(\w+)\.)?([A-Z]\w*)")


_MODULES = {
    "io.k8s.api": "k8s.io/api",
    "io.k8s.apiextensions-apiserver": "k8s.io/apiextensions-apiserver",
    "io.k8s.apimachinery": "k8s.io/apimachinery",
    "io.k8s.kube-aggregator": "k8s.io/kube-aggregator",
}
"""First words of a schema's name -> the Go module that declares its type."""


@dataclass(frozen=True, slots=True)
class StructField:
    """One field: its name in JSON (empty if embedded), its Go type as written, and the options of its tag."""

    name: str
    type: str
    options: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Package:
    """The declarations of one Go package."""

    imports: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    structs: Mapping[str, tuple[StructField, ...]] = field(default_factory=dict)


Packages = Mapping[str, Package]
"""Packages by import path."""


def go_type_of(schema: str) -> tuple[str, str]:
    """Package path and type name for the name of a schema.

    >>> go_type_of("io.k8s.api.core.v1.Pod")
    ('k8s.io/api/core/v1', 'Pod')
    """
    for prefix, module in _MODULES.items():
        if schema.startswith(f"{prefix}."):
            *folders, name = schema.removeprefix(f"{prefix}.").split(".")
            return "/".join((module, *folders)), name
    raise ValueError(f"no Go module is known for the schema {schema}")


def local_types(text: str) -> list[tuple[str, str]]:
    """The exported types in a Go type: the alias of the package (empty: the same package), and the name.

    >>> local_types("map[ResourceName]*resource.Quantity")
    [('', 'ResourceName'), ('resource', 'Quantity')]
    """
    return [(match[1] or "", match[2]) for match in _NAME.finditer(text)]


def render_structs(packages: Packages) -> str:
    """The text form."""
    return "".join(f"{line}\n" for path, package in packages.items() for line in _lines(path, package))


def _lines(path: str, package: Package) -> Iterator[str]:
    yield f"package {path}"
    yield from (f"import {alias} {imported}" for alias, imported in package.imports.items())
    yield from (f"named {name} {text}" for name, text in package.named.items())
    for name, fields in package.structs.items():
        yield f"struct {name}"
        for part in fields:
            yield " ".join(("  " + (part.name or _EMBEDDED), part.type, *sorted(part.options)))


def parse_structs(text: str) -> Packages:
    r"""The facts in a text form.

    >>> facts = parse_structs("package a/b\nnamed Phase string\nstruct C\n  phase Phase omitempty\n  + d.E\n")
    >>> facts["a/b"].named, [part.name for part in facts["a/b"].structs["C"]]
    ({'Phase': 'string'}, ['phase', ''])
    """
    packages: dict[str, Package] = {}
    for block in text.removeprefix("package ").split("\npackage "):
        path, *lines = block.splitlines()
        imports: dict[str, str] = {}
        named: dict[str, str] = {}
        structs: dict[str, tuple[StructField, ...]] = {}
        struct = ""
        for line in lines:
            word, *rest = line.split()
            if line.startswith("  "):
                name = "" if word == _EMBEDDED else word
                structs[struct] += (StructField(name, rest[0], frozenset(rest[1:])),)
            elif word == "struct":
                struct = rest[0]
                structs[struct] = ()
            else:
                (imports if word == "import" else named)[rest[0]] = rest[1]
        packages[path] = Package(imports, named, structs)
    return packages
