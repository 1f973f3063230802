"""Defaults of the group certificates.k8s.io. Each function fills in an object that the caller owns.

Upstream: k8s.io/api/certificates/v1/types.go (v1.37)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def pod_certificate_request(obj: JsonObject) -> None:
    """Default the longest lifetime of the certificate to a day."""
    put(obj.setdefault("spec", {}), maxExpirationSeconds=86_400)


DEFAULTS: Mapping[str, Defaults] = {"certificates.k8s.io/podcertificaterequests": pod_certificate_request}
"""By ``group/resource``."""
