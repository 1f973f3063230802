"""The CustomResourceDefinitions that an operator depends on, and the follower of an operator without webhooks."""

from __future__ import annotations

from collections.abc import Container, Sequence

from opsdk.apimachinery.crd import definition_name, stored_classes, subresources_of, versions_by_kind
from opsdk.apimachinery.object import TypedObject
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.registered.comparison import RegisteredObject, RegisteredVersion


def registered_definition(
    kinds: Sequence[type[TypedObject]], versions: Sequence[type[TypedObject]], converted: Container[str] = ()
) -> RegisteredObject:
    """Return what an operator needs of the definition of one kind.

    Args:
        kinds: the classes that controllers read.
        versions: the classes of the kind.
        converted: names of the definitions that the operator converts.
    """
    name = definition_name(versions)
    return RegisteredObject(
        target=InjectionTarget(InjectionKind.CONVERSION, name),
        converted=name in converted,
        scope="Namespaced" if stored_classes(versions)[0].namespaced else "Cluster",
        versions=tuple(
            RegisteredVersion(
                name=cls.gvk.version,
                used=cls in kinds,
                # A single class may be one of several versions, of which others declare the stored one.
                stored=cls in stored_classes(versions) and (len(versions) > 1 or getattr(cls, "storage", False)),
                subresources=subresources_of(cls),
                representation=cls,
            )
            for cls in versions
            if getattr(cls, "served", True)
        ),
    )


def registered_definitions(kinds: Sequence[type[TypedObject]]) -> list[RegisteredObject]:
    """Return the definitions of the kinds that the controllers of an operator without webhooks read."""
    return [registered_definition(kinds, versions) for versions in versions_by_kind(kinds).values()]
