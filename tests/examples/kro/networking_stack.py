"""A VPC of AWS with its subnets and a security group."""

from __future__ import annotations

from msgspec import field

from opsdk import Context, ControllerOptions, GroupVersionKind, Model, Object, Operator
from opsdk.apimachinery.object import to_dict
from opsdk.children.ordering import Child
from tests.examples.kro.aws import EC2, ack


class NetworkingStackStatus(Model):
    """The ids that AWS gave."""

    vpc_id: str = ""
    subnets: list[str] = field(default_factory=list)


class NetworkingStack(Object[Model, NetworkingStackStatus]):
    """A VPC, its subnets and a security group."""

    gvk = GroupVersionKind("examples.opsdk.dev", "v1", "NetworkingStack")


def make_operator() -> Operator:
    """Three subnets and a security group, in parallel, when the VPC has its id."""
    operator = Operator("networking-stacks")

    @operator.reconciler(NetworkingStack, owns=EC2, options=ControllerOptions(delete_in_reverse=True))
    async def reconcile(stack: NetworkingStack, ctx: Context) -> None:
        name = stack.metadata.name
        vpc = await ctx.apply(ack("ec2", "VPC", name, cidrBlocks=["192.168.0.0/16"]), ready="has(self.status.vpcID)")
        vpc_id = vpc.get("status", "vpcID")
        zones = {"a": "192.168.0.0/18", "b": "192.168.64.0/18", "c": "192.168.128.0/18"}
        subnets = [ack("ec2", "Subnet", f"{name}-{z}", cidrBlock=block, vpcID=vpc_id) for z, block in zones.items()]
        children = [Child(subnet, after=[vpc], ready="has(self.status.subnetID)") for subnet in subnets]
        group = Child(ack("ec2", "SecurityGroup", name, vpcID=vpc_id), after=[vpc], ready="has(self.status.id)")
        *live, _ = await ctx.apply_all([*children, group])
        async with ctx.status(stack) as patch:
            patch.status.vpc_id = vpc_id
            patch.status.subnets = [to_dict(subnet)["status"]["subnetID"] for subnet in live]

    return operator
