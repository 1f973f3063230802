"""Children that several examples have."""

from __future__ import annotations

import msgspec

from opsdk import LabelSelector, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec
from opsdk.api.networking.v1 import Ingress


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
