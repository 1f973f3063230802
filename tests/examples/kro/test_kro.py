"""Examples of kro, written anew: children in order, with readiness and nothing to do at rest.

Upstream: github.com/kubernetes-sigs/kro/examples (0302e659)
"""

from __future__ import annotations

import asyncio

from opsdk import Kind, Model, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.batch.v1 import Job
from opsdk.api.core.v1 import Service
from opsdk.api.networking.v1 import Ingress
from opsdk.client.patch import merge_patch
from opsdk.structured_merge.value import JsonObject
from tests.examples.kro import job_deployment, networking_stack, postgres, web_app, worker_app
from tests.examples.kro.aws import EC2, RDS
from tests.examples.kro.job_deployment import JobDeployment, JobDeploymentSpec
from tests.examples.kro.networking_stack import NetworkingStack
from tests.examples.kro.postgres import Postgres, PostgresSpec
from tests.examples.kro.web_app import WebApp, WebAppSpec
from tests.examples.kro.worker_app import WorkerApp, WorkerAppSpec
from tests.examples.running import assert_at_rest, example, set_status

UP = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}


def definition_of(kind: Kind[Unstructured]) -> JsonObject:
    """Return the definition of a kind of AWS."""
    gvk, plural = kind.gvk, f"{kind.gvk.kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": gvk.version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    names = {"kind": gvk.kind, "plural": plural}
    spec = {"group": gvk.group, "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": f"{plural}.{gvk.group}"}
    kinds = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kinds, "metadata": meta, "spec": spec}


AWS = [definition_of(kind) for kind in [*EC2, *RDS]]


async def test_webapp() -> None:
    """Kro's web application: Service and Ingress after an available Deployment."""
    operator = web_app.make_operator()
    async with example(operator, WebApp(spec=WebAppSpec(has_ingress=True))) as client:
        assert await client.get_or_none(Service, "default/a") is None
        await set_status(client, Deployment, "a", **UP)
        assert await client.get_or_none(Service, "default/a") is not None
        assert await client.get_or_none(Ingress, "default/a") is not None
        await assert_at_rest(client, WebApp, operator)


async def test_worker_app() -> None:
    """Kro's worker: its status follows the Deployment."""
    operator = worker_app.make_operator()
    async with example(operator, WorkerApp(spec=WorkerAppSpec(redis_endpoint="r"))) as client:
        assert list(operator.journal.find(name="a"))[-1].result == "waiting"
        await set_status(client, Deployment, "a-worker", **UP)
        app = await client.get(WorkerApp, "default/a")
        assert app.status is not None
        assert app.status.available_replicas == 1
        await assert_at_rest(client, WorkerApp, operator)


async def test_job_example() -> None:
    """Kro's job: the Deployment after it."""
    operator = job_deployment.make_operator()
    async with example(operator, JobDeployment(spec=JobDeploymentSpec())) as client:
        assert await client.get_or_none(Deployment, "default/a") is None
        job = await client.get(Job, "default/a-job")
        now = "2026-01-01T00:00:00Z"
        done = [{"type": t, "status": "True", "lastTransitionTime": now} for t in ("SuccessCriteriaMet", "Complete")]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": done}
        await client.status().patch(job, merge_patch({"status": status}))
        await asyncio.sleep(2)
        assert await client.get_or_none(Deployment, "default/a") is not None
        await assert_at_rest(client, JobDeployment, operator)


async def test_networkstack() -> None:
    """Kro's network: subnets and security group in parallel, when the VPC has its id."""
    operator, (vpc, subnet, group) = networking_stack.make_operator(), EC2
    async with example(operator, NetworkingStack(spec=Model()), AWS) as client:
        assert not await client.list(subnet, namespace="default")
        await set_status(client, vpc, "a", vpcID="vpc-1")
        assert len(await client.list(subnet, namespace="default")) == 3
        for zone in "abc":
            await set_status(client, subnet, f"a-{zone}", subnetID=f"subnet-{zone}")
        await set_status(client, group, "a", id="sg-1")
        stack = await client.get(NetworkingStack, "default/a")
        assert stack.status is not None
        assert (stack.status.vpc_id, stack.status.subnets) == ("vpc-1", ["subnet-a", "subnet-b", "subnet-c"])
        await assert_at_rest(client, NetworkingStack, operator)


async def test_rds_postgres() -> None:
    """Kro's database: after its password and its two groups."""
    operator, (subnets, instance) = postgres.make_operator(), RDS
    async with example(operator, Postgres(spec=PostgresSpec(vpc_id="vpc-1", subnet_ids=["s"])), AWS) as client:
        assert not await client.list(instance, namespace="default")
        await set_status(client, EC2[2], "a", id="sg-1")
        await set_status(client, subnets, "a", ackResourceMetadata={"arn": "x"})
        endpoint = {"address": "db.example.com"}
        await set_status(client, instance, "a", dbInstanceStatus="available", endpoint=endpoint)
        obj = await client.get(Postgres, "default/a")
        assert obj.status is not None
        assert obj.status.endpoint == "db.example.com"
        await assert_at_rest(client, Postgres, operator)
