"""Defaults of the group storage.k8s.io. Each function fills in an object that the caller owns.

Upstream: pkg/apis/storage/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from opsdk.structured_merge.value import JsonObject


def storage_class(obj: JsonObject) -> None:
    """Default the reclaim policy to Delete and the binding mode to Immediate."""
    put(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def csi_driver(obj: JsonObject) -> None:
    """Default the fields of a CSIDriver."""
    put(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
    )


DEFAULTS: Mapping[str, Defaults] = {
    "storage.k8s.io/storageclasses": storage_class,
    "storage.k8s.io/csidrivers": csi_driver,
}
"""By ``group/resource``."""
