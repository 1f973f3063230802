"""What a Website is made of. Pure: a Website in, objects out."""

from __future__ import annotations

import hashlib

from opsdk import LabelSelector, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
)
from website.api import Website


def labels(site: Website) -> dict[str, str]:
    """What marks the site's objects."""
    return {"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": site.metadata.name}


def _meta(site: Website) -> ObjectMeta:
    return ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace, labels=labels(site))


def config_map(site: Website) -> ConfigMap:
    """The page."""
    return ConfigMap(metadata=_meta(site), data={"index.html": site.spec.content})


def deployment(site: Website) -> Deployment:
    """The web servers. A new page is rolled out too: the template carries its digest."""
    digest = hashlib.sha256(site.spec.content.encode()).hexdigest()[:16]
    container = Container(
        name="web",
        image=site.spec.image,
        ports=[ContainerPort(container_port=site.spec.port)],
        volume_mounts=[VolumeMount(name="content", mount_path="/usr/share/nginx/html")],
    )
    volume = Volume(name="content", config_map=ConfigMapVolumeSource(name=site.metadata.name))
    return Deployment(
        metadata=_meta(site),
        spec=DeploymentSpec(
            replicas=site.spec.replicas,
            selector=LabelSelector(match_labels=labels(site)),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels(site), annotations={"demo.opsdk.dev/content": digest}),
                spec=PodSpec(containers=[container], volumes=[volume]),
            ),
        ),
    )


def service(site: Website) -> Service:
    """The way in."""
    port = ServicePort(name="http", port=80, target_port=site.spec.port)
    return Service(metadata=_meta(site), spec=ServiceSpec(selector=labels(site), ports=[port]))


def is_rolled_out(live: Deployment, site: Website) -> bool:
    """Whether every wanted replica runs the present template and is available."""
    status = live.status
    wanted = site.spec.replicas
    return (
        (status.observed_generation or 0) >= live.metadata.generation
        and (status.updated_replicas or 0) == wanted
        and (status.available_replicas or 0) >= wanted
        and (status.replicas or 0) == wanted
    )
