"""RBAC rules of the server: ``opsdk generate rbac bookshelf.rbac:RULES --name bookshelf`` prints the manifests."""

from opsdk.apiserver.auth.authentication_config import NAME, NAMESPACE
from opsdk.rbac.rules import RbacRule

RULES = [
    RbacRule("get", "configmaps", resource_names=[NAME], namespaces=[NAMESPACE]),
    RbacRule("create", "tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"),
]
