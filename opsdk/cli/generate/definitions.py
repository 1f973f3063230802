"""``opsdk generate crd``: CustomResourceDefinitions from classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opsdk.apimachinery.crd import crds_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import class_place
from opsdk.apimachinery.object import TypedObject
from opsdk.apiserver.structural.older_servers import parse_minor, unsupported_parts
from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.cli.loading import load
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject


def load_class(reference: str) -> type[TypedObject]:
    """Return the class that ``MODULE:CLASS`` names. The current folder is searched first.

    Raises:
        UsageError: the module or the class does not exist, or the class is not a kind. The message has the file and
            line of the class.
    """
    cls = load(reference, "CLASS")
    place = class_place(cls)
    prefix = f"{place}: " if place else ""
    if not (isinstance(cls, type) and issubclass(cls, TypedObject)):
        raise UsageError(f"{prefix}{reference!r} is not a kind: name a class that derives from opsdk.Object")
    if not (isinstance(gvk := getattr(cls, "gvk", None), GroupVersionKind) and gvk.kind):
        raise UsageError(f"{prefix}{reference!r} is not a kind: set gvk = GroupVersionKind(group, version, kind)")
    return cls


def definitions_of(classes: Sequence[type[TypedObject]]) -> Sequence[JsonObject]:
    """Return one definition for each kind, in the order of the first class of each, checked as the server checks it.

    Raises:
        UsageError: a declaration is not valid, or a rule does not compile. The message has the path of the field.
        ConfigError: a pattern or a rule needs a library of the extra ``envtest``.

    >>> from opsdk import GroupVersionKind, Model, Object
    >>> class SiteSpec(Model):
    ...     replicas: int = 1
    >>> class Site(Object[SiteSpec, None]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> [crd["metadata"]["name"] for crd in definitions_of([Site])]
    ['sites.demo.opsdk.dev']
    """
    definitions = crds_for(classes)
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            _check_version(definition["metadata"]["name"], version)
    return definitions


def _check_version(name: str, version: JsonObject) -> None:
    has_status = "status" in version.get("subresources", {})
    schema = version["schema"]["openAPIV3Schema"]
    errors = check_structural(schema, FieldPath(version["name"]), has_status=has_status)
    if errors:
        raise UsageError(f"{name} is not valid:\n" + "\n".join(f"  {error}" for error in errors))


_POLICIES_SINCE: Final = {"ValidatingAdmissionPolicy": 30, "MutatingAdmissionPolicy": 36}
"""The first minor versions that serve these kinds in ``v1``."""


def check_accepted(definitions: Sequence[JsonObject], version: str, policies: Sequence[JsonObject] = ()) -> None:
    """Check that servers of a version of Kubernetes accept definitions, which are valid for this one.

    Args:
        definitions: CustomResourceDefinitions.
        version: the oldest version that must accept them.
        policies: admission policies and bindings, whose kinds it must serve. Their expressions are not checked.

    Raises:
        UsageError: they do not, with a sentence for each part; or it is not a version.
    """
    minor = parse_minor(version)
    parts = [
        f"  {definition['metadata']['name']}: {part}"
        for definition in definitions
        for part in unsupported_parts(definition, minor)
    ]
    parts += [
        f"  {policy['metadata']['name']}: servers know the kind {policy['kind']} since Kubernetes 1.{since}"
        for policy in policies
        if (since := _POLICIES_SINCE.get(policy["kind"], 0)) > minor
    ]
    if parts:
        raise UsageError(f"Kubernetes 1.{minor} does not accept:\n" + "\n".join(parts))


def file_name(definition: JsonObject) -> str:
    """Return the name of a definition's file: ``GROUP_PLURAL.yaml``."""
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"
