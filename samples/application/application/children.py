"""Builds the objects of an Application. Pure. Their namespace is set to the Application's when they are applied."""

from __future__ import annotations

import hashlib

from application.api import Application
from opsdk import LabelSelector, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec
from opsdk.api.batch.v1 import Job, JobSpec
from opsdk.api.core import v1 as core
from opsdk.recipes import safe_concat_name


def labels(app: Application, part: str) -> dict[str, str]:
    """Return the labels of one part."""
    return {
        "app.kubernetes.io/name": "application",
        "app.kubernetes.io/instance": app.metadata.name,
        "app.kubernetes.io/component": part,
    }


def meta(app: Application, part: str, *more: str) -> ObjectMeta:
    """Return the metadata of one part."""
    return ObjectMeta(name=safe_concat_name(app.metadata.name, part, *more), labels=labels(app, part))


def template(app: Application, part: str, container: core.Container, restart: str = "Always") -> core.PodTemplateSpec:
    """Return the pods of one part. The servers and the migration find the database by its Service."""
    container.env = [core.EnvVar(name="DATABASE_HOST", value=meta(app, "db").name)]
    spec = core.PodSpec(containers=[container], restart_policy=restart)
    return core.PodTemplateSpec(metadata=ObjectMeta(labels=labels(app, part)), spec=spec)


def service(app: Application, part: str, port: int, *, headless: bool = False) -> core.Service:
    """Return the Service of one part."""
    spec = core.ServiceSpec(
        selector=labels(app, part),
        ports=[core.ServicePort(name="main", port=port)],
        cluster_ip="None" if headless else None,
    )
    return core.Service(metadata=meta(app, part), spec=spec)


def database(app: Application) -> StatefulSet:
    """Return the database."""
    spec = StatefulSetSpec(
        replicas=1,
        service_name=meta(app, "db").name,
        selector=LabelSelector(match_labels=labels(app, "db")),
        template=template(app, "db", core.Container(name="db", image=app.spec.database_image)),
    )
    return StatefulSet(metadata=meta(app, "db"), spec=spec)


def migration(app: Application) -> Job:
    """Return the Job that migrates the database to the image: one for each image and command, which never change."""
    digest = hashlib.sha256("\0".join([app.spec.image, *app.spec.migrate]).encode()).hexdigest()[:10]
    container = core.Container(name="migrate", image=app.spec.image, command=app.spec.migrate)
    spec = JobSpec(backoff_limit=2, template=template(app, "migrate", container, restart="Never"))
    return Job(metadata=meta(app, "migrate", digest), spec=spec)


def servers(app: Application) -> Deployment:
    """Return the servers."""
    spec = DeploymentSpec(
        replicas=app.spec.replicas,
        selector=LabelSelector(match_labels=labels(app, "web")),
        template=template(app, "web", core.Container(name="web", image=app.spec.image)),
    )
    return Deployment(metadata=meta(app, "web"), spec=spec)
