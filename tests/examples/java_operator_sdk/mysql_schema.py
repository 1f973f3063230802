"""A schema of a MySQL server, and a Secret with its credentials."""

from __future__ import annotations

import msgspec
from msgspec import field

from opsdk import Context, ControllerOptions, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import Secret
from opsdk.controller.external import ExternalRef, ExternalResource, ExternalStatus


class SchemaSpec(Model):
    """The encoding of the schema."""

    encoding: str = "utf8"


class SchemaStatus(Model):
    """What a program needs to connect."""

    schema: ExternalStatus = field(default_factory=ExternalStatus)
    url: str = ""
    secret_name: str = ""


class MySQLSchema(Object[SchemaSpec, SchemaStatus]):
    """A schema of a MySQL server, which is outside the cluster."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "MySQLSchema")


class Schema(msgspec.Struct):
    """A schema on the server."""

    id: str
    encoding: str


class SchemaResource(ExternalResource[MySQLSchema, Schema]):
    """A schema is known by its name, so the token is not needed."""

    name, poll = "schema", 5.0

    def __init__(self, server: dict[str, Schema]) -> None:
        self.server = server

    async def observe(self, obj: MySQLSchema, ref: ExternalRef) -> Schema | None:
        return self.server.get(obj.metadata.name)

    async def create(self, obj: MySQLSchema, ref: ExternalRef) -> Schema:
        return self.server.setdefault(obj.metadata.name, Schema(obj.metadata.name, obj.spec.encoding))

    async def delete(self, obj: MySQLSchema, ref: ExternalRef) -> None:
        self.server.pop(obj.metadata.name, None)


def make_operator(server: dict[str, Schema]) -> Operator:
    """A Secret with credentials, and then the schema."""
    operator, resource = Operator("schemas"), SchemaResource(server)

    @operator.reconciler(MySQLSchema, owns=[Secret, resource], options=ControllerOptions(delete_in_reverse=True))
    async def reconcile(obj: MySQLSchema, ctx: Context) -> None:
        name = f"{obj.metadata.name}-secret"
        secret = await ctx.apply(Secret(metadata=ObjectMeta(name=name), string_data={"user": obj.metadata.name}))
        schema = await ctx.apply(resource, after=[secret])
        async with ctx.status(obj) as patch:
            patch.status.url, patch.status.secret_name = f"jdbc:mysql://db/{schema.id}", name

    return operator
