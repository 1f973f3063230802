"""A PostgreSQL database of AWS."""

from __future__ import annotations

from msgspec import field

from opsdk import Context, ControllerOptions, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.object import to_dict
from opsdk.children.ordering import Child
from tests.examples.kro.aws import EC2, RDS, ack


class PostgresSpec(Model):
    """Where the database runs, and its size."""

    vpc_id: str = ""
    subnet_ids: list[str] = field(default_factory=list)
    allocated_storage: int = 20


class PostgresStatus(Model):
    """Where the database is reached."""

    endpoint: str = ""


class Postgres(Object[PostgresSpec, PostgresStatus]):
    """A PostgreSQL database of RDS."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "Postgres")


AVAILABLE = "self.status.dbInstanceStatus == 'available' && has(self.status.endpoint)"


def make_operator() -> Operator:
    """The database follows its password, its security group and its subnet group."""
    operator = Operator("postgres")

    @operator.reconciler(Postgres, owns=[Secret, EC2[2], *RDS], options=ControllerOptions(delete_in_reverse=True))
    async def reconcile(obj: Postgres, ctx: Context) -> None:
        name, spec = obj.metadata.name, obj.spec
        password = Secret(metadata=ObjectMeta(name=f"{name}-password"), string_data={"password": "postgres"})
        firewall = ack("ec2", "SecurityGroup", name, vpcID=spec.vpc_id)
        subnets = ack("rds", "DBSubnetGroup", name, subnetIDs=spec.subnet_ids)
        db = ack("rds", "DBInstance", name, engine="postgres", allocatedStorage=spec.allocated_storage)
        *_, live = await ctx.apply_all(
            [
                password,
                Child(firewall, ready="has(self.status.id)"),
                Child(subnets, ready="has(self.status.ackResourceMetadata)"),
                Child(db, after=[password, firewall, subnets], ready=AVAILABLE),
            ]
        )
        async with ctx.status(obj) as patch:
            patch.status.endpoint = to_dict(live)["status"]["endpoint"]["address"]

    return operator
