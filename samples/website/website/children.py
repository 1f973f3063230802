"""Builds the child objects of a Website. Pure. Their namespace is set to the Website's when they are applied."""

from __future__ import annotations

import hashlib

from opsdk import LabelSelector, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from website.api import Website


def labels(site: Website) -> dict[str, str]:
    """Return the labels of the site's objects."""
    return {"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": site.metadata.name}


def meta(site: Website) -> ObjectMeta:
    """Return the metadata of the site's objects."""
    return ObjectMeta(name=site.metadata.name, labels=labels(site))


def config_map(site: Website) -> core.ConfigMap:
    """Return the ConfigMap with the page."""
    return core.ConfigMap(metadata=meta(site), data={"index.html": site.spec.content})


def deployment(site: Website) -> Deployment:
    """Return the Deployment. Its pod template has a digest of the page, so a new page triggers a rollout."""
    digest = hashlib.sha256(site.spec.content.encode()).hexdigest()[:16]
    container = core.Container(
        name="web",
        image=site.spec.image,
        ports=[core.ContainerPort(container_port=site.spec.port)],
        volume_mounts=[core.VolumeMount(name="content", mount_path="/usr/share/nginx/html")],
    )
    volume = core.Volume(name="content", config_map=core.ConfigMapVolumeSource(name=site.metadata.name))
    template = core.PodTemplateSpec(
        metadata=ObjectMeta(labels=labels(site), annotations={"demo.opsdk.dev/content": digest}),
        spec=core.PodSpec(containers=[container], volumes=[volume]),
    )
    selector = LabelSelector(match_labels=labels(site))
    spec = DeploymentSpec(replicas=site.spec.replicas, selector=selector, template=template)
    return Deployment(metadata=meta(site), spec=spec)


def service(site: Website) -> core.Service:
    """Return the Service of the pods."""
    port = core.ServicePort(name="http", port=80, target_port=site.spec.port)
    return core.Service(metadata=meta(site), spec=core.ServiceSpec(selector=labels(site), ports=[port]))


def is_rolled_out(live: Deployment, site: Website) -> bool:
    """Whether every desired replica runs the current template and is available."""
    status, replicas = live.status, site.spec.replicas
    return (
        (status.observed_generation or 0) >= live.metadata.generation
        and (status.updated_replicas or 0) == (status.replicas or 0) == replicas
        and (status.available_replicas or 0) >= replicas
    )
