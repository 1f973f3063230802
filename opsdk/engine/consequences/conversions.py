"""Objects that lose fields between the versions of their kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.differences import differences
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity
from opsdk.errors import OpsdkError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.conversion import Converter

__all__ = ["conversion_consequences"]


def conversion_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the fields that the objects of a changed definition lose, for each version that the server converts to.

    A client that reads an object in such a version and writes it back removes the field.
    """
    for change in evidence.of_kind("CustomResourceDefinition"):
        if change.after is None or (change.before is not None and not change.differences):
            continue
        spec = change.after["spec"]
        converter = evidence.converters.get(GroupKind(spec["group"], spec["names"]["kind"]))
        if converter is None:
            continue
        objects = [
            obj for obj in evidence.before(spec["names"]["kind"]) if obj["apiVersion"].startswith(f"{spec['group']}/")
        ]
        schemas = {f"{spec['group']}/{version['name']}": _schema_of(version) for version in spec["versions"]}
        served = [f"{spec['group']}/{version['name']}" for version in spec["versions"] if version.get("served")]
        for version in served:
            for problem, count in _problems(objects, version, converter, schemas).items():
                message = f"{count} {spec['names']['plural']} {problem}"
                yield Consequence(ConsequenceKind.CONVERSION_LOSES_DATA, Severity.DANGER, change.subject, message)


def _schema_of(version: JsonObject) -> StructuralSchema:
    return StructuralSchema((version.get("schema") or {}).get("openAPIV3Schema") or {})


def _problems(
    objects: Sequence[JsonObject], version: str, converter: Converter, schemas: Mapping[str, StructuralSchema]
) -> Counter[str]:
    """Return what happens to objects on the way to a version and back, with the number of the objects.

    The server fills in the defaults of each version, so a field with its default may be absent on the way.
    """
    problems = Counter[str]()
    for obj in objects:
        source = obj["apiVersion"]
        if source == version:
            continue
        try:
            there = schemas[version].default(converter.convert(obj, version))
            back = schemas[source].default(converter.convert(there, source))
        except Exception as error:  # noqa: BLE001 - the operator's own code may raise anything
            reason = str(error) if isinstance(error, OpsdkError) else f"{type(error).__name__}: {error}"
            problems[f"cannot be converted to {version} and back: {reason}"] += 1
            continue
        lost = [each.path for each in differences(obj, back) if each.old is not None]
        if lost:
            problems[f"lose {', '.join(lost)} when they are converted to {version} and back"] += 1
    return problems
