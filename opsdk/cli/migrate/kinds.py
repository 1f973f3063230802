"""Finds the kind that a decorator of kopf names: in definitions, or among the built-in kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from opsdk.api.generated_kinds import BUILT_IN
from opsdk.apimachinery.plurals import pluralize
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.cli.generate.served_definitions import definitions_among
from opsdk.cli.migrate.model import KindName, ResourceSelector
from opsdk.cli.validate.documents import SUFFIXES
from opsdk.structured_merge.value import JsonObject

__all__ = ["definitions_in", "kinds_of_definitions", "resolve"]

_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_SHORT_NAMES: Final = {
    "Pod": "po",
    "Service": "svc",
    "ConfigMap": "cm",
    "Namespace": "ns",
    "Node": "no",
    "Deployment": "deploy",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "PersistentVolumeClaim": "pvc",
    "PersistentVolume": "pv",
    "ServiceAccount": "sa",
    "Ingress": "ing",
}


def definitions_in(files: Iterable[Path]) -> Iterator[JsonObject]:
    """Yield the CustomResourceDefinitions in YAML files. Files that do not parse, such as templates, are skipped."""
    for path in sorted(each for each in files if each.suffix in SUFFIXES):
        try:
            documents = read_documents(path.read_bytes())
        except (SyntaxProblemError, OSError):
            continue
        yield from (each for each in definitions_among(documents) if _has_names(each))


def _has_names(definition: JsonObject) -> bool:
    spec, metadata = definition.get("spec"), definition.get("metadata")
    has_name = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    return has_name and isinstance(spec, dict) and isinstance(spec.get("names"), dict)


def kinds_of_definitions(definitions: Iterable[JsonObject]) -> list[KindName]:
    """Return the kinds of definitions, the storage version of each first."""
    kinds: dict[tuple[str, str, str], KindName] = {}
    for definition in definitions:
        spec, names = definition["spec"], definition["spec"]["names"]
        versions = spec.get("versions") or [{"name": spec.get("version", "v1"), "storage": True}]
        own_names = {str(names[key]) for key in ("plural", "singular", "kind") if names.get(key)}
        for version in sorted(versions, key=lambda each: not each.get("storage")):
            kind = KindName(
                group=str(spec.get("group", "")),
                version=str(version.get("name", "")),
                kind=str(names.get("kind", "")),
                plural=str(names.get("plural", "")),
                names=frozenset(own_names | {str(name) for name in names.get("shortNames") or ()}),
            )
            kinds.setdefault((kind.group, kind.version, kind.kind), kind)
    return list(kinds.values())


def _built_in_kinds() -> Iterator[KindName]:
    for gvk in sorted(BUILT_IN, key=lambda each: (each.group, each.version, each.kind)):
        plural = pluralize(gvk.kind.lower())
        names = frozenset(filter(None, (plural, gvk.kind, gvk.kind.lower(), _SHORT_NAMES.get(gvk.kind, ""))))
        yield KindName(group=gvk.group, version=gvk.version, kind=gvk.kind, plural=plural, names=names)


def resolve(selector: ResourceSelector, known: Sequence[KindName]) -> KindName | None:
    """Return the kind that a selector names; None if it is not known and cannot be guessed.

    Args:
        selector: of a decorator.
        known: kinds of the operator's definitions.
    """
    for kind in (*known, *_built_in_kinds()):
        if (
            selector.name in kind.names
            and selector.group in (None, kind.group)
            and selector.version in (None, kind.version)
        ):
            return kind
    if not (selector.group and selector.version):
        return None
    singular = _singular(selector.name)
    kind_name = singular if singular[:1].isupper() else singular[:1].upper() + singular[1:]
    plural = selector.name if selector.name[:1].islower() else pluralize(selector.name.lower())
    return KindName(group=selector.group, version=selector.version, kind=kind_name, plural=plural, is_guessed=True)


def _singular(plural: str) -> str:
    """Return the probable singular.

    >>> _singular("policies"), _singular("ingresses"), _singular("toys")
    ('policy', 'ingress', 'toy')
    """
    if plural.endswith("ies"):
        return f"{plural[:-3]}y"
    if plural.endswith(("sses", "xes", "shes", "ches")):
        return plural[:-2]
    return plural.removesuffix("s")


def parse_selector(words: Sequence[str], keywords: dict[str, str]) -> ResourceSelector:
    """Return the selector of a decorator's arguments.

    >>> parse_selector(["example.com/v1", "toys"], {})
    ResourceSelector(group='example.com', version='v1', name='toys')
    >>> parse_selector(["toys.v1.example.com"], {}).group
    'example.com'
    """
    group, version, name = keywords.get("group"), keywords.get("version"), ""
    for key in ("plural", "kind", "singular", "shortcut"):
        name = name or keywords.get(key, "")
    if len(words) == 3:
        group, version, name = words
    elif len(words) == 2:
        group, _, version = words[0].rpartition("/")
        name = words[1]
    elif len(words) == 1 and "/" in words[0]:
        group, _, version = words[0].rpartition("/")
    elif len(words) == 1:
        name, _, rest = words[0].partition(".")
        first, _, others = rest.partition(".")
        if rest and _VERSION.fullmatch(first):
            group, version = others, first
        elif rest:
            group = rest
    return ResourceSelector(group=group, version=version, name=name)
