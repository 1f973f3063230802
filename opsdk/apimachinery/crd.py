"""Generates CustomResourceDefinitions from typed classes.

Constraints come from ``msgspec.Meta``, as in ``Annotated[int, msgspec.Meta(ge=0)]``, and from the markers of this
module, such as `list_type`; defaults come from the fields. Descriptions come from ``Meta(description=...)``, from the
docstrings of the classes, and from their ``Attributes:`` sections.

Upstream: sigs.k8s.io/controller-tools/pkg/crd (the same task for Go types)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

from msgspec import inspect as types
from msgspec import structs

from opsdk.apimachinery.crd_checks import check_definition
from opsdk.apimachinery.crd_markers import (
    PrinterColumn,
    Rule,
    Scale,
    embedded_resource,
    json_schema,
    list_type,
    map_type,
    nullable,
    preserve_unknown_fields,
    validations,
)
from opsdk.apimachinery.crd_schema import Schemas
from opsdk.apimachinery.decoders import annotation_error
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.plurals import plural_of
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "PrinterColumn",
    "Rule",
    "Scale",
    "crd_for",
    "embedded_resource",
    "json_schema",
    "list_type",
    "map_type",
    "nullable",
    "preserve_unknown_fields",
    "printer_columns",
    "validations",
]


def crd_for(*versions: type[Any]) -> JsonObject:
    """Return the CustomResourceDefinition of a kind, as a JSON tree to create or apply.

    Args:
        versions: one class for each version. Objects are stored in the version whose class has ``storage = True``, or
            in the first one.

    Names and scope come from the class variables of the stored version; `Object` lists them. A class with a typed
    ``status`` gets the status subresource.

    Raises:
        UsageError: the classes are not versions of one kind, a type has no structural schema, or a declaration is not
            valid. The message has the path of the field.

    >>> from opsdk.apimachinery.gvk import GroupVersionKind
    >>> from opsdk.apimachinery.model import Model
    >>> from opsdk.apimachinery.object import Object
    >>> class SiteSpec(Model):
    ...     replicas: int = 1
    >>> class Site(Object[SiteSpec, None]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> crd_for(Site)["spec"]["names"]["plural"]
    'sites'
    """
    if not versions:
        raise UsageError("crd_for needs at least one class")
    for version in versions:
        if not version.gvk.group or not version.gvk.kind:
            text = "needs a `gvk` with a group: a custom resource cannot be in the core group"
            raise UsageError(f"{version.__name__} {text}")
    if len({v.gvk.group_kind for v in versions}) > 1:
        raise UsageError(f"{[str(v.gvk) for v in versions]} are not versions of one kind")
    stored = stored_classes(versions)
    crd: JsonObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(versions)},
        "spec": {
            "group": stored[0].gvk.group,
            "names": _names(stored[0]),
            "scope": "Namespaced" if stored[0].namespaced else "Cluster",
            "versions": [_version(v, storage=v in stored) for v in versions],
        },
    }
    check_definition(crd)
    return crd


def versions_by_kind(classes: Iterable[type[TypedObject]]) -> dict[GroupKind, list[type[TypedObject]]]:
    """Return the classes of each kind: the versions of one definition, in their order."""
    versions: dict[GroupKind, list[type[TypedObject]]] = {}
    for cls in classes:
        versions.setdefault(cls.gvk.group_kind, []).append(cls)
    return versions


def crds_for(classes: Iterable[type[TypedObject]]) -> list[JsonObject]:
    """Return one CustomResourceDefinition for each kind, see `crd_for`."""
    return [crd_for(*versions) for versions in versions_by_kind(classes).values()]


def stored_classes(versions: Sequence[type[Any]]) -> list[type[Any]]:
    """Return the classes with ``storage = True``; without any, the first one."""
    return [version for version in versions if getattr(version, "storage", False)] or [versions[0]]


def definition_name(versions: Sequence[type[Any]]) -> str:
    """Return the name of the CustomResourceDefinition with these versions."""
    stored = stored_classes(versions)[0]
    return f"{plural_of(stored)}.{stored.gvk.group}"


def subresources_of(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the subresources that a version has in its CustomResourceDefinition."""
    has_status = getattr(kind, "status_subresource", None)
    if has_status is None:
        has_status = any(each.name == "status" and each.type not in (None, NoneType) for each in _fields_of(kind))
    return (*(("status",) if has_status else ()), *(("scale",) if getattr(kind, "scale", None) else ()))


def _names(kind: type[TypedObject]) -> JsonObject:
    name = kind.gvk.kind
    names: JsonObject = {
        "plural": plural_of(kind),
        "singular": getattr(kind, "singular", "") or name.lower(),
        "kind": name,
        "listKind": getattr(kind, "list_kind", "") or f"{name}List",
    }
    for key, attribute in (("shortNames", "short_names"), ("categories", "categories")):
        if values := getattr(kind, attribute, ()):
            names[key] = list(values)
    return names


def _version(kind: type[TypedObject], *, storage: bool) -> JsonObject:
    """Return a version of a CustomResourceDefinition: schema, subresources, columns, selectable fields."""
    schema = schema_for(kind)
    version: JsonObject = {
        "name": kind.gvk.version,
        "served": getattr(kind, "served", True),
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
    }
    subresources: JsonObject = {"status": {}} if "status" in subresources_of(kind) else {}
    if scale := getattr(kind, "scale", None):
        paths = {"specReplicasPath": scale.spec_replicas_path, "statusReplicasPath": scale.status_replicas_path}
        subresources["scale"] = {**paths, **to_builtins(scale)}
    if subresources:
        version["subresources"] = subresources
    if columns := getattr(kind, "printer_columns", ()):
        version["additionalPrinterColumns"] = [{**to_builtins(c), "type": c.type} for c in columns]
    if fields := getattr(kind, "selectable_fields", ()):
        version["selectableFields"] = [{"jsonPath": path} for path in fields]
    if getattr(kind, "deprecated", False):
        version["deprecated"] = True
    if warning := getattr(kind, "deprecation_warning", ""):
        version["deprecationWarning"] = warning
    return version


def schema_for(kind: type[TypedObject]) -> JsonObject:
    """Return the structural schema of a kind. If a type has none, raises `UsageError` with its path."""
    return Schemas(kind.__name__).of(_type_info(kind))


def _type_info(kind: type[Any]) -> types.Type:
    """Return the type with all types below it. Raises `UsageError` that names a field with a wrong annotation."""
    try:
        return types.type_info(kind)
    except (TypeError, NameError) as error:
        raise annotation_error(kind, error) from error


def _fields_of(kind: type[Any]) -> Sequence[structs.FieldInfo]:
    """Return the fields alone: a tenth of the time. Raises `UsageError` that names one with a wrong annotation."""
    try:
        return structs.fields(kind)
    except (TypeError, NameError) as error:
        raise annotation_error(kind, error) from error


def printer_columns(*columns: tuple[str, str] | tuple[str, str, str]) -> Sequence[PrinterColumn]:
    """Return columns from tuples ``(name, json_path)`` or ``(name, json_path, type)``."""
    return tuple(PrinterColumn(name=c[0], json_path=c[1], type=c[2] if len(c) == 3 else "string") for c in columns)
