"""tomcat-operator of the Java Operator SDK: servers, and the web applications that are downloaded into them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, GroupVersionKind, LabelSelector, Model, Object, ObjectMeta, Operator, Request
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.apimachinery.crd import Rule
from opsdk.builder.arguments import WatchSpec
from opsdk.rbac.rules import applies, executes, patches_status

GROUP = "tomcat.example.com"
DOWNLOADER = "war-downloader"


class TomcatSpec(Model, kw_only=True):
    """The desired servers."""

    version: Annotated[int, Meta(ge=9)]
    replicas: Annotated[int, Meta(ge=1)] = 1


class TomcatStatus(Model, kw_only=True):
    """The observed servers."""

    ready_replicas: int = 0


class Tomcat(Object[TomcatSpec, TomcatStatus]):
    """Servers behind one Service."""

    rules = (Rule("self.metadata.name.matches('^[a-z][a-z0-9-]{0,62}$')", message="the name is that of a Service"),)
    gvk = GroupVersionKind(GROUP, "v1", "Tomcat")


class WebappSpec(Model, kw_only=True):
    """An application and the Tomcat that serves it."""

    tomcat: Annotated[str, Meta(pattern="^[a-z0-9-]+$", max_length=63)]
    url: Annotated[str, Meta(pattern="^https?://")]
    context_path: Annotated[str, Meta(pattern="^[a-z0-9-]+$")]

    @property
    def file(self) -> str:
        """The file in each server."""
        return f"/data/{self.context_path}.war"


class WebappStatus(Model, kw_only=True):
    """What is deployed, by Pod."""

    deployed: dict[str, str] = field(default_factory=dict)


class Webapp(Object[WebappSpec, WebappStatus]):
    """A web application."""

    gvk = GroupVersionKind(GROUP, "v1", "Webapp")


def labels(name: str) -> dict[str, str]:
    """Return the labels of the Pods of a Tomcat."""
    return {"app": "tomcat", "tomcat": name}


def children(tomcat: Tomcat) -> tuple[Deployment, core.Service]:
    """Return the Deployment, whose Pods have a second container with wget, and its Service."""
    name, mount = tomcat.metadata.name, core.VolumeMount(name="webapps", mount_path="/data")
    served = core.VolumeMount(name="webapps", mount_path="/usr/local/tomcat/webapps")
    port = core.ContainerPort(container_port=8080)
    server = core.Container(name="tomcat", image=f"tomcat:{tomcat.spec.version}", ports=[port], volume_mounts=[served])
    wait = ["tail", "-f", "/dev/null"]
    downloader = core.Container(name=DOWNLOADER, image="busybox:1.36", command=wait, volume_mounts=[mount])
    volume = core.Volume(name="webapps", empty_dir=core.EmptyDirVolumeSource())
    pod = core.PodSpec(containers=[server, downloader], volumes=[volume])
    template = core.PodTemplateSpec(metadata=ObjectMeta(labels=labels(name)), spec=pod)
    selector = LabelSelector(match_labels=labels(name))
    spec = DeploymentSpec(replicas=tomcat.spec.replicas, selector=selector, template=template)
    service = core.ServiceSpec(selector=labels(name), ports=[core.ServicePort(port=80, target_port=8080)])
    meta = ObjectMeta(name=name)
    return Deployment(metadata=meta, spec=spec), core.Service(metadata=meta, spec=service)


operator = Operator("tomcat")
WRITES = [applies(Deployment, core.Service), patches_status(Tomcat)]


@operator.reconciler(Tomcat, owns=[Deployment, core.Service], rbac=WRITES)
async def reconcile_tomcat(tomcat: Tomcat, ctx: Context) -> None:
    """Apply the servers."""
    deployment, service = children(tomcat)
    live = await ctx.apply(deployment)
    await ctx.apply(service)
    async with ctx.status(tomcat) as patch:
        patch.status.ready_replicas = live.status.ready_replicas or 0


async def run_everywhere(pods: list[core.Pod], argv: list[str], ctx: Context) -> None:
    """Run a command in each Pod. Raises `ExitError` if one fails: the reconcile is tried again."""

    async def run(pod: core.Pod) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        await ctx.cluster.pods.exec(key, argv, container=DOWNLOADER, timeout=30, check=True)

    await asyncio.gather(*map(run, pods))


async def running_pods(webapp: Webapp, ctx: Context) -> list[core.Pod]:
    """Return the Pods of the Tomcat that run."""
    pods = await ctx.client.list(
        core.Pod, namespace=webapp.metadata.namespace, label_selector=labels(webapp.spec.tomcat)
    )
    return [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]


async def remove_file(webapp: Webapp, ctx: Context) -> None:
    """Remove the application from the servers."""
    await run_everywhere(await running_pods(webapp, ctx), ["rm", "-f", webapp.spec.file], ctx)


async def webapps_of(pod: core.Pod) -> list[Request]:
    """Map a Pod to the applications of its Tomcat."""
    webapps = await operator.client.list(Webapp, namespace=pod.metadata.namespace)
    return [Request.of(each) for each in webapps if each.spec.tomcat == pod.metadata.labels.get("tomcat")]


@operator.reconciler(
    Webapp,
    watches=[WatchSpec(kind=core.Pod, handler=webapps_of)],
    finalizers={f"{GROUP}/file": remove_file},
    rbac=[patches_status(Webapp), executes(core.Pod)],
)
async def reconcile_webapp(webapp: Webapp, ctx: Context) -> None:
    """Download the application into each Pod that lacks it. Upstream does so once, so a new Pod never gets it."""
    pods, deployed = await running_pods(webapp, ctx), webapp.status.deployed if webapp.status else {}
    lacking = [pod for pod in pods if deployed.get(pod.metadata.uid) != webapp.spec.url]
    await run_everywhere(lacking, ["wget", "-O", webapp.spec.file, webapp.spec.url], ctx)
    async with ctx.status(webapp) as patch:
        patch.status.deployed = {pod.metadata.uid: webapp.spec.url for pod in pods}


if __name__ == "__main__":
    operator.main()
