"""Defaults of the group rbac.authorization.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/rbac/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def role_binding(obj: JsonObject) -> None:
    """Default the API groups of the subjects and of the role reference."""
    ref = obj.setdefault("roleRef", {})
    if not ref.get("apiGroup"):
        ref["apiGroup"] = "rbac.authorization.k8s.io"
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            put(subject, apiGroup="rbac.authorization.k8s.io")
            if not subject["apiGroup"]:
                subject["apiGroup"] = "rbac.authorization.k8s.io"


DEFAULTS: Mapping[str, Defaults] = {
    "rbac.authorization.k8s.io/rolebindings": role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": role_binding,
}
"""By ``group/resource``."""
