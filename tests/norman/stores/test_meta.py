"""The stores of schemas and of the API root, through a server."""

from __future__ import annotations

from normankit import V3, NormanKit

from opsdk.norman.access import AllAccess
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.server.server import NormanServer
from opsdk.norman.stores.memory import MemoryStore


class NoSecrets(AllAccess):
    """A user without permissions on secrets."""

    async def can_list(self, context: ApiContext, schema: Schema) -> None:
        if schema.id == "secret":
            raise ErrorCode.PERMISSION_DENIED.error("can not list secret")

    async def can_get(self, context: ApiContext, schema: Schema) -> None:
        if schema.id == "secret":
            raise ErrorCode.PERMISSION_DENIED.error("can not get secret")


def served(access: AllAccess) -> NormanKit:
    """Return a server of two types."""
    schemas = SchemaRegistry()
    for name in ("book", "secret"):
        schemas.add(
            Schema(
                id=name,
                version=V3,
                resource_methods=("GET",),
                collection_methods=("GET",),
                store=MemoryStore(),
            )
        )
    return NormanKit(NormanServer(schemas, access=access))


async def test_a_user_without_permissions_does_not_see_a_schema() -> None:
    """Neither in the list nor by its id."""
    everybody, user = served(AllAccess()), served(NoSecrets())
    assert {"book", "secret"} <= {item["id"] for item in (await everybody.get("/v3/schemas")).data}
    assert "secret" not in {item["id"] for item in (await user.get("/v3/schemas")).data}
    assert (await everybody.get("/v3/schemas/secret")).status == 200
    assert (await user.get("/v3/schemas/secret")).error == (404, "NotFound", None)
    assert (await user.get("/v3/schemas/book")).status == 200


async def test_the_root_lists_the_versions() -> None:
    """``GET /`` has the versions with their paths."""
    root = await served(AllAccess()).get("/")
    assert "/v3" in [item["apiVersion"]["path"] for item in root.data]
