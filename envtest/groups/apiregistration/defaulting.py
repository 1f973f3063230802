"""Defaults of the group apiregistration.k8s.io. Each function fills in an object that the caller owns.

Upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def api_service(obj: JsonObject) -> None:
    """Default the Service port to 443."""
    ref = (obj.get("spec") or {}).get("service")
    if isinstance(ref, dict):
        put(ref, port=443)


DEFAULTS: Mapping[str, Defaults] = {
    "apiregistration.k8s.io/apiservices": api_service,
}
"""By ``group/resource``."""
