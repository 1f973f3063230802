"""Examples of Java Operator SDK and kro, written anew: children in order, with readiness and nothing to do at rest.

Upstream: java-operator-sdk sample-operators (webpage, mysql-schema); kubernetes-sigs/kro examples (kubernetes/webapp,
kubernetes/dogsvscats/worker-app, kubernetes/job-example, aws/networkstack, aws/rds-postgres)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from boxes import records, running, writes
from msgspec import field

from opsdk import (
    Child,
    Client,
    Context,
    ControllerOptions,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    Unstructured,
    unstructured,
)
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.batch.v1 import Job, JobSpec
from opsdk.api.core.v1 import (
    ConfigMap,
    Container,
    ContainerPort,
    EnvVar,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
)
from opsdk.api.networking.v1 import Ingress
from opsdk.apimachinery.meta import LabelSelector
from opsdk.client.patch import merge_patch
from opsdk.controller.external import ExternalRef, ExternalResource, ExternalStatus

EXAMPLES = "examples.opsdk.dev"
REVERSE = ControllerOptions(delete_in_reverse=True)


def deployment(name: str, container: Container, replicas: int = 1) -> Deployment:
    """Return a Deployment with one container."""
    labels = {"app": name}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


def service(name: str, port: int) -> Service:
    """Return a Service for the Deployment of this name."""
    ports = [ServicePort(name="http", port=80, target_port=port)]
    return Service(metadata=ObjectMeta(name=name), spec=ServiceSpec(selector={"app": name}, ports=ports))


def ingress(name: str) -> Ingress:
    """Return an Ingress for the Service of this name."""
    backend = {"service": {"name": name, "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    tree = {"metadata": {"name": name}, "spec": {"rules": [rule]}}
    return msgspec.convert(tree, Ingress)


def ack(group: str, kind: str, name: str, **spec: Any) -> Unstructured:
    """Return a resource of a controller for AWS."""
    version = f"{group}.services.k8s.aws/v1alpha1"
    return Unstructured.from_tree({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


# ------------------------------------------------------------------ Java Operator SDK: webpage
class WebPageSpec(Model):
    """The page, and whether it has an Ingress."""

    html: str = ""
    exposed: bool = False


class WebPageStatus(Model):
    """The ConfigMap of the page."""

    html_config_map: str = ""


class WebPage(Object[WebPageSpec, WebPageStatus]):
    """A page that nginx serves."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "WebPage")


def make_web_pages() -> Operator:
    """ConfigMap, Deployment, Service, and an Ingress for an exposed page."""
    operator = Operator("web-pages")

    @operator.reconciler(WebPage, owns=[ConfigMap, Deployment, Service, Ingress])
    async def reconcile(page: WebPage, ctx: Context) -> None:
        name = page.metadata.name
        html = ConfigMap(metadata=ObjectMeta(name=f"{name}-html"), data={"index.html": page.spec.html})
        served = deployment(name, Container(name="nginx", image="nginx:1.17"))
        children = [html, served, service(name, 80)] + ([ingress(name)] if page.spec.exposed else [])
        await ctx.apply_all(children, prune=[Ingress])
        async with ctx.status(page) as patch:
            patch.status.html_config_map = html.metadata.name

    return operator


# ------------------------------------------------------------------ Java Operator SDK: mysql-schema
class SchemaSpec(Model):
    """The encoding of the schema."""

    encoding: str = "utf8"


class SchemaStatus(Model):
    """What a program needs to connect."""

    schema: ExternalStatus = field(default_factory=ExternalStatus)
    url: str = ""
    secret_name: str = ""


class MySQLSchema(Object[SchemaSpec, SchemaStatus]):
    """A schema of a MySQL server, which is outside of the cluster."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "MySQLSchema")


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


def make_schemas(server: dict[str, Schema]) -> Operator:
    """A Secret with credentials, and then the schema."""
    operator, resource = Operator("schemas"), SchemaResource(server)

    @operator.reconciler(MySQLSchema, owns=[Secret, resource], options=REVERSE)
    async def reconcile(obj: MySQLSchema, ctx: Context) -> None:
        name = f"{obj.metadata.name}-secret"
        secret = await ctx.apply(Secret(metadata=ObjectMeta(name=name), string_data={"user": obj.metadata.name}))
        schema = await ctx.apply(resource, after=[secret])
        async with ctx.status(obj) as patch:
            patch.status.url, patch.status.secret_name = f"jdbc:mysql://db/{schema.id}", name

    return operator


# ------------------------------------------------------------------ kro: kubernetes/webapp
class WebAppSpec(Model):
    """Image, port, size, and which children there are."""

    image: str = "nginx"
    port: int = 8080
    replicas: int = 1
    has_service: bool = True
    has_ingress: bool = False


class WebAppStatus(Model):
    """The replicas that are available."""

    available_replicas: int = 0


class WebApp(Object[WebAppSpec, WebAppStatus]):
    """A Deployment with a Service and an Ingress after it."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "WebApp")


def make_web_apps() -> Operator:
    """Service and Ingress follow when the Deployment is available."""
    operator = Operator("web-apps")

    @operator.reconciler(WebApp, owns=[Deployment, Service, Ingress], options=REVERSE)
    async def reconcile(app: WebApp, ctx: Context) -> None:
        name, spec = app.metadata.name, app.spec
        container = Container(name="web", image=spec.image, ports=[ContainerPort(container_port=spec.port)])
        web = deployment(name, container, spec.replicas)
        entry, route = Child(service(name, spec.port), after=[web]), Child(ingress(name), after=[web])
        chosen = [*([entry] if spec.has_service else []), *([route] if spec.has_ingress else [])]
        await ctx.apply_all([Child(web, ready=True), *chosen], prune=[Service, Ingress])
        async with ctx.status(app) as patch:
            patch.status.available_replicas = spec.replicas

    return operator


# ------------------------------------------------------------------ kro: kubernetes/dogsvscats/worker-app
class WorkerAppSpec(Model):
    """Where the worker finds its databases."""

    redis_endpoint: str = ""
    postgres_endpoint: str = ""


class WorkerAppStatus(Model):
    """The replicas that are available."""

    available_replicas: int = 0


class WorkerApp(Object[WorkerAppSpec, WorkerAppStatus]):
    """A worker between two databases."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "WorkerApp")


def make_worker_apps() -> Operator:
    """A Deployment whose state is that of the worker."""
    operator = Operator("worker-apps")

    @operator.reconciler(WorkerApp, owns=[Deployment])
    async def reconcile(app: WorkerApp, ctx: Context) -> None:
        env = {"REDIS_HOST": app.spec.redis_endpoint, "POSTGRES_HOST": app.spec.postgres_endpoint}
        container = Container(name="worker", image="worker", env=[EnvVar(name=k, value=v) for k, v in env.items()])
        worker = await ctx.apply(deployment(f"{app.metadata.name}-worker", container), ready=True)
        async with ctx.status(app) as patch:
            patch.status.available_replicas = (worker.status and worker.status.available_replicas) or 0

    return operator


# ------------------------------------------------------------------ kro: kubernetes/job-example
class JobDeploymentSpec(Model):
    """How long the job takes."""

    delay_in_seconds: int = 30


class JobDeployment(Object[JobDeploymentSpec, Model]):
    """A job, and a Deployment after it."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "JobDeployment")


def make_job_deployments() -> Operator:
    """The Deployment follows when the job is complete."""
    operator = Operator("job-deployments")

    @operator.reconciler(JobDeployment, owns=[Job, Deployment])
    async def reconcile(obj: JobDeployment, ctx: Context) -> None:
        sleeper = Container(name="sleeper", image="busybox", command=["sleep", str(obj.spec.delay_in_seconds)])
        template = PodTemplateSpec(spec=PodSpec(restart_policy="Never", containers=[sleeper]))
        job = Job(metadata=ObjectMeta(name=f"{obj.metadata.name}-job"), spec=JobSpec(template=template))
        await ctx.apply(job, ready=True)
        await ctx.apply(deployment(obj.metadata.name, Container(name="web", image="nginx")))

    return operator


# ------------------------------------------------------------------ kro: aws/networkstack
class NetworkingStackStatus(Model):
    """The ids that AWS gave."""

    vpc_id: str = ""
    subnets: list[str] = field(default_factory=list)


class NetworkingStack(Object[Model, NetworkingStackStatus]):
    """A VPC, its subnets and a security group."""

    gvk = GroupVersionKind(EXAMPLES, "v1", "NetworkingStack")


EC2 = [unstructured("ec2.services.k8s.aws/v1alpha1", kind) for kind in ("VPC", "Subnet", "SecurityGroup")]


def make_networking_stacks() -> Operator:
    """Three subnets and a security group, in parallel, when the VPC has its id."""
    operator = Operator("networking-stacks")

    @operator.reconciler(NetworkingStack, owns=EC2, options=REVERSE)
    async def reconcile(stack: NetworkingStack, ctx: Context) -> None:
        name = stack.metadata.name
        vpc = await ctx.apply(ack("ec2", "VPC", name, cidrBlocks=["192.168.0.0/16"]), ready="has(self.status.vpcID)")
        vpc_id = vpc.get("status", "vpcID")
        zones = {"a": "192.168.0.0/18", "b": "192.168.64.0/18", "c": "192.168.128.0/18"}
        subnets = [ack("ec2", "Subnet", f"{name}-{z}", cidrBlock=block, vpcID=vpc_id) for z, block in zones.items()]
        children = [Child(subnet, after=[vpc], ready="has(self.status.subnetID)") for subnet in subnets]
        group = Child(ack("ec2", "SecurityGroup", name, vpcID=vpc_id), after=[vpc], ready="has(self.status.id)")
        live = await ctx.apply_all([*children, group])
        async with ctx.status(stack) as patch:
            patch.status.vpc_id = vpc_id
            patch.status.subnets = [subnet.get("status", "subnetID") for subnet in live[:-1]]

    return operator


# ------------------------------------------------------------------ kro: aws/rds-postgres
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

    gvk = GroupVersionKind(EXAMPLES, "v1", "Postgres")


RDS = [unstructured("rds.services.k8s.aws/v1alpha1", kind) for kind in ("DBSubnetGroup", "DBInstance")]
AVAILABLE = "self.status.dbInstanceStatus == 'available' && has(self.status.endpoint)"


def make_postgres() -> Operator:
    """The database follows its password, its security group and its subnet group."""
    operator = Operator("postgres")

    @operator.reconciler(Postgres, owns=[Secret, EC2[2], *RDS], options=REVERSE)
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
            patch.status.endpoint = live.get("status", "endpoint", "address")

    return operator


# ------------------------------------------------------------------ tests
def crd_of(kind: Any) -> Unstructured:
    """Return the definition of a kind of AWS."""
    gvk = kind.gvk
    plural = f"{gvk.kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": gvk.version, "served": True, "storage": True, "subresources": {"status": {}}}
    spec = {
        "group": gvk.group,
        "scope": "Namespaced",
        "names": {"kind": gvk.kind, "plural": plural},
        "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
    }
    tree = {"metadata": {"name": f"{plural}.{gvk.group}"}, "spec": spec}
    return Unstructured.from_tree({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **tree})


@asynccontextmanager
async def example(operator: Operator, obj: Any) -> AsyncIterator[Client]:
    """Run an operator with one object."""
    async with running(operator, type(obj)) as client:
        for kind in [*EC2, *RDS]:
            await client.create(crd_of(kind))
        await asyncio.sleep(30)
        obj.metadata = ObjectMeta(name="a", namespace="default")
        await client.create(obj)
        await asyncio.sleep(2)
        yield client


async def set_status(client: Client, kind: Any, name: str, **status: Any) -> None:
    """Write a status as the controller of the kind would."""
    live = await client.get(kind, f"default/{name}")
    status["observedGeneration"] = live.metadata.generation
    await client.status().patch(live, merge_patch({"status": status}))
    await asyncio.sleep(2)


async def assert_at_rest(client: Client, kind: Any, operator: Operator, outcome: str = "success") -> None:
    """Check that the object is done, and that a reconcile which finds nothing to do sends nothing."""
    assert records(operator)[-1].result == outcome
    count = len(records(operator))
    live = await client.get(kind, "default/a")
    await client.patch(live, merge_patch({"metadata": {"annotations": {"touched": "yes"}}}))
    await asyncio.sleep(60)
    later = records(operator)[count:]
    assert later
    assert not [request for record in later for request in writes(record)]


UP = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}


async def test_webpage() -> None:
    """Java Operator SDK's web page: the Ingress comes and goes with its field."""
    operator = make_web_pages()
    async with example(operator, WebPage(spec=WebPageSpec(html="<html>", exposed=True))) as client:
        assert (await client.get(ConfigMap, "default/a-html")).data == {"index.html": "<html>"}
        assert await client.get_or_none(Ingress, "default/a") is not None
        page = await client.get(WebPage, "default/a")
        await client.patch(page, merge_patch({"spec": {"exposed": False}}))
        await asyncio.sleep(2)
        assert await client.get_or_none(Ingress, "default/a") is None
        await assert_at_rest(client, WebPage, operator)


async def test_mysql_schema() -> None:
    """Java Operator SDK's schema: created after its Secret, and deleted before it."""
    server: dict[str, Schema] = {}
    operator = make_schemas(server)
    async with example(operator, MySQLSchema(spec=SchemaSpec())) as client:
        assert server == {"a": Schema("a", "utf8")}
        obj = await client.get(MySQLSchema, "default/a")
        assert obj.status is not None
        assert (obj.status.url, obj.status.schema.after) == ("jdbc:mysql://db/a", "Secret default/a-secret")
        await assert_at_rest(client, MySQLSchema, operator, "requeue_after")
        await client.delete(obj)
        await asyncio.sleep(20)
        assert not server
        assert await client.get_or_none(Secret, "default/a-secret") is None


async def test_webapp() -> None:
    """Kro's web application: Service and Ingress after an available Deployment."""
    operator = make_web_apps()
    async with example(operator, WebApp(spec=WebAppSpec(has_ingress=True))) as client:
        assert await client.get_or_none(Service, "default/a") is None
        await set_status(client, Deployment, "a", **UP)
        assert await client.get_or_none(Service, "default/a") is not None
        assert await client.get_or_none(Ingress, "default/a") is not None
        await assert_at_rest(client, WebApp, operator)


async def test_worker_app() -> None:
    """Kro's worker: its status follows the Deployment."""
    operator = make_worker_apps()
    async with example(operator, WorkerApp(spec=WorkerAppSpec(redis_endpoint="r"))) as client:
        assert records(operator)[-1].result == "waiting"
        await set_status(client, Deployment, "a-worker", **UP)
        app = await client.get(WorkerApp, "default/a")
        assert app.status is not None
        assert app.status.available_replicas == 1
        await assert_at_rest(client, WorkerApp, operator)


async def test_job_example() -> None:
    """Kro's job: the Deployment after it."""
    operator = make_job_deployments()
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
    operator, (vpc, subnet, group) = make_networking_stacks(), EC2
    async with example(operator, NetworkingStack(spec=Model())) as client:
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
    operator, (subnets, instance) = make_postgres(), RDS
    async with example(operator, Postgres(spec=PostgresSpec(vpc_id="vpc-1", subnet_ids=["s"]))) as client:
        assert not await client.list(instance, namespace="default")
        await set_status(client, EC2[2], "a", id="sg-1")
        await set_status(client, subnets, "a", ackResourceMetadata={"arn": "x"})
        endpoint = {"address": "db.example.com"}
        await set_status(client, instance, "a", dbInstanceStatus="available", endpoint=endpoint)
        obj = await client.get(Postgres, "default/a")
        assert obj.status is not None
        assert obj.status.endpoint == "db.example.com"
        await assert_at_rest(client, Postgres, operator)
