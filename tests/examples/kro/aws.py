"""Resources of the controllers for AWS."""

from __future__ import annotations

from typing import Any

from opsdk import Unstructured
from opsdk.apimachinery.kinds import unstructured_kind


def ack(group: str, kind: str, name: str, **spec: Any) -> Unstructured:
    """Return a resource of a controller for AWS."""
    version = f"{group}.services.k8s.aws/v1alpha1"
    return Unstructured.from_tree({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


EC2 = [unstructured_kind("ec2.services.k8s.aws/v1alpha1", kind) for kind in ("VPC", "Subnet", "SecurityGroup")]
RDS = [unstructured_kind("rds.services.k8s.aws/v1alpha1", kind) for kind in ("DBSubnetGroup", "DBInstance")]
