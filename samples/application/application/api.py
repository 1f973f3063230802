"""The Application kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Condition, GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import printer_columns
from opsdk.controller.external import ExternalStatus

GROUP = "applications.opsdk.dev"


class ApplicationSpec(Model, kw_only=True):
    """The desired application."""

    image: Annotated[str, Meta(min_length=1, description="Image of the servers and of the migration.")]
    migrate: Annotated[list[str], Meta(description="The command that migrates the database to the image.")] = field(
        default_factory=lambda: ["migrate"]
    )
    replicas: Annotated[int, Meta(ge=0, le=50)] = 1
    database_image: Annotated[str, Meta(min_length=1)] = "postgres:17"
    host: Annotated[str, Meta(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", description="The name in the DNS.")]


class ApplicationStatus(Model, kw_only=True):
    """The observed application."""

    image: Annotated[str, Meta(description="The image that serves.")] = ""
    record: ExternalStatus = field(default_factory=ExternalStatus)
    observed_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Application(Object[ApplicationSpec, ApplicationStatus]):
    """An application: a database, a migration, servers, and a name in the DNS."""

    gvk = GroupVersionKind(GROUP, "v1", "Application")
    short_names = ("app",)
    printer_columns = printer_columns(
        ("Host", ".spec.host"),
        ("Image", ".status.image"),
        ("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        ("Message", '.status.conditions[?(@.type=="Ready")].message'),
    )
