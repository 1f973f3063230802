"""An operator that initialises a PostgreSQL server by exec, and gives it a password that is replaced on request."""

from contextlib import aclosing
from secrets import token_urlsafe
from typing import Annotated

from msgspec import Meta, field

from opsdk import (
    Condition,
    Context,
    ControllerOptions,
    GroupVersionKind,
    LabelSelector,
    Model,
    Object,
    ObjectMeta,
    Operator,
    TemporaryError,
    references,
)
from opsdk.api.apps.v1 import StatefulSet, StatefulSetSpec
from opsdk.api.core import v1
from opsdk.api.core.v1 import Pod, Secret
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.controller.daemons import DaemonSpec
from opsdk.rbac.rules import applies, executes, patches_status, reads, reads_logs
from opsdk.webhook.policies import AdmissionRule, policy

CERTIFICATE = unstructured_kind("cert-manager.io/v1", "Certificate")  # another operator's kind
STARTED = "PostgreSQL init process complete"
SQL = "ALTER USER postgres PASSWORD '{password}';\nCREATE SCHEMA IF NOT EXISTS {schema};\n"
KEEPS_SCHEMA = "oldObject == null || object.spec.schema == oldObject.spec.schema"
PSQL = ["psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "--single-transaction"]


class PostgresSpec(Model):
    certificate: str
    schema: Annotated[str, Meta(pattern="^[a-z_]+$")]


class PostgresStatus(Model):
    started: bool = False
    password: str = ""  # uid of the Secret whose password the server has
    conditions: list[Condition] = field(default_factory=list)


class Postgres(Object[PostgresSpec, PostgresStatus]):
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Postgres")


@policy(Postgres)
class PostgresPolicy:
    rules = (AdmissionRule(KEEPS_SCHEMA, message="the schema cannot be renamed", field_path="spec.schema"),)


RBAC = [applies(StatefulSet), applies(Secret), patches_status(Postgres), reads(Pod), executes(Pod), reads_logs(Pod)]


def server_of(database: Postgres, tls_secret: str) -> StatefulSet:
    name = database.metadata.name
    password = v1.EnvVarSource(secret_key_ref=v1.SecretKeySelector(name=name, key="password"))
    container = v1.Container(
        name="postgres",
        image="postgres:17",
        env=[v1.EnvVar(name="POSTGRES_PASSWORD", value_from=password)],
        volume_mounts=[v1.VolumeMount(name="tls", mount_path="/tls", read_only=True)],
    )
    tls = v1.Volume(name="tls", secret=v1.SecretVolumeSource(secret_name=tls_secret))
    spec = v1.PodSpec(containers=[container], volumes=[tls])
    template = v1.PodTemplateSpec(metadata=ObjectMeta(labels={"postgres": name}), spec=spec)
    selector = LabelSelector(match_labels={"postgres": name})
    meta = ObjectMeta(name=name)
    return StatefulSet(metadata=meta, spec=StatefulSetSpec(selector=selector, service_name=name, template=template))


async def follow_log(database: Postgres, ctx: Context) -> None:
    pod = f"{database.metadata.namespace}/{database.metadata.name}-0"
    await ctx.cluster.wait_for(Pod, pod, within=600)
    async with aclosing(ctx.cluster.pods.logs(pod, follow=True)) as lines:
        async for line in lines:
            if STARTED in line:
                async with ctx.status(database) as patch:
                    patch.status.started = True  # the event of this change starts the next reconcile
                return
    raise TemporaryError(f"the log of Pod {pod} ended before {STARTED!r}")


FOLLOW_LOG = DaemonSpec(function=follow_log, when=lambda obj: not (obj.status and obj.status.started))


def make_operator() -> Operator:
    operator = Operator("postgres")
    operator.add_policy(PostgresPolicy)

    @operator.reconciler(
        Postgres,
        owns=[StatefulSet, Secret],
        watches=[references(CERTIFICATE, by=lambda database: database.spec.certificate)],
        daemons=[FOLLOW_LOG],
        rbac=RBAC,
        options=ControllerOptions(ready_condition="Ready"),
    )
    async def reconcile(database: Postgres, ctx: Context) -> None:
        namespace, name = database.metadata.namespace, database.metadata.name
        certificate = await ctx.require(CERTIFICATE, database.spec.certificate, ready=True)
        meta, password = ObjectMeta(name=name), token_urlsafe()
        secret = await ctx.create_once(Secret(metadata=meta, string_data={"password": password}))
        await ctx.apply(server_of(database, certificate["spec"]["secretName"]), ready=True)
        await ctx.require(Postgres, name, ready="self.status.started")
        async with ctx.status(database) as patch:
            if patch.status.password == secret.metadata.uid:
                return
            sql = SQL.format(password=secret.data["password"].decode(), schema=database.spec.schema)
            await ctx.cluster.pods.exec(f"{namespace}/{name}-0", PSQL, stdin=sql.encode(), check=True)
            patch.status.password = secret.metadata.uid

    return operator
