"""The version before v1, and its conversion. Objects are stored in v1, the hub."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, convert

from database.api import GROUP, Database, DatabaseSpec, DatabaseStatus, Engine, SecretReference
from opsdk import GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import Scale
from opsdk.webhook.conversion import HubSpokeConverter, Spoke


class DatabaseV1Beta1Spec(Model, kw_only=True):
    """The desired instance."""

    product: Annotated[str, Meta(pattern="^(postgres|mysql):[0-9]+$", description="Engine and version.")]
    storage: Annotated[str, Meta(pattern="^[1-9][0-9]{0,3}Gi$")] = "10Gi"
    replicas: Annotated[int, Meta(ge=0, le=5)] = 1
    secret_name: Annotated[str, Meta(min_length=1)]


class DatabaseV1Beta1(Object[DatabaseV1Beta1Spec, DatabaseStatus]):
    """A database of an external service."""

    gvk = GroupVersionKind(GROUP, "v1beta1", "Database")
    deprecated = True
    scale = Scale()


def upgrade(old: DatabaseV1Beta1) -> Database:
    """Return the database in v1."""
    name, _, version = old.spec.product.partition(":")
    engine: Engine = convert(name, Engine)
    size, secret = int(old.spec.storage.removesuffix("Gi")), SecretReference(name=old.spec.secret_name)
    spec = DatabaseSpec(engine=engine, version=version, size_gb=size, replicas=old.spec.replicas, credentials=secret)
    return Database(spec=spec, status=old.status)


def downgrade(database: Database) -> DatabaseV1Beta1:
    """Return the database in v1beta1."""
    v1, secret_name = database.spec, database.spec.credentials.name
    product, storage = f"{v1.engine}:{v1.version}", f"{v1.size_gb}Gi"
    spec = DatabaseV1Beta1Spec(product=product, storage=storage, replicas=v1.replicas, secret_name=secret_name)
    return DatabaseV1Beta1(spec=spec, status=database.status)


CONVERTER = HubSpokeConverter(Database, Spoke(DatabaseV1Beta1, to_hub=upgrade, from_hub=downgrade))
