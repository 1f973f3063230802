"""The Database kind."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from opsdk import Condition, GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import Rule, Scale, printer_columns, validations

GROUP = "databases.opsdk.dev"
FINALIZER = f"{GROUP}/instance"
Engine = Literal["postgres", "mysql"]


class SecretReference(Model, kw_only=True):
    """A Secret in the namespace of the Database."""

    name: Annotated[str, Meta(min_length=1, description="Secret with the keys username and password.")]


class DatabaseSpec(Model, kw_only=True):
    """The desired instance."""

    engine: Annotated[Engine, validations(Rule("self == oldSelf", message="is immutable"))]
    version: Annotated[str, Meta(pattern="^[0-9]+$", description="The major version.")]
    size_gb: Annotated[int, Meta(ge=1, le=9_999), validations(Rule("self >= oldSelf", message="cannot shrink"))] = 10
    replicas: Annotated[int, Meta(ge=0, le=5)] = 1
    credentials: SecretReference


class DatabaseStatus(Model, kw_only=True):
    """The observed instance."""

    endpoint: str = ""
    replicas: int = 0
    secret_version: Annotated[str, Meta(description="The resource version of the Secret in use.")] = ""
    observed_generation: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Database(Object[DatabaseSpec, DatabaseStatus]):
    """A database of an external service."""

    gvk = GroupVersionKind(GROUP, "v1", "Database")
    short_names = ("db",)
    scale = Scale()
    printer_columns = printer_columns(
        ("Engine", ".spec.engine"),
        ("Version", ".spec.version"),
        ("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    )
