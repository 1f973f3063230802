"""What differs between the strategies of built-in kinds: a row for each ``group/resource``.

Upstream: pkg/registry/<group>/<kind>/strategy.go, storage/storage.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec


class KindTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The traits of a kind.

    Attributes:
        has_generation: ``metadata.generation`` counts changes outside metadata and status.
        returns_deleted: DELETE returns the object instead of a Status.
        create_on_update: PUT on a missing object creates it.
        version_required: PUT needs a resourceVersion.
        status_alone: a status update does not change metadata.
        path_names: names are path segments instead of DNS subdomains.
        template: the path to a pod spec; empty without one.
    """

    has_generation: bool = False
    returns_deleted: bool = False
    create_on_update: bool = False
    version_required: bool = False
    status_alone: bool = False
    path_names: bool = False
    template: Sequence[str] = ()


_TEMPLATE: Final = ("spec", "template", "spec")
_JOB_TEMPLATE: Final = ("spec", "jobTemplate", *_TEMPLATE)
_PLAIN: Final = KindTraits()
_COUNTED: Final = KindTraits(has_generation=True)
_RETURNED: Final = KindTraits(returns_deleted=True)
_UPSERTED: Final = KindTraits(create_on_update=True)
_VERSIONED: Final = KindTraits(version_required=True)
_COUNTED_VERSIONED: Final = KindTraits(has_generation=True, version_required=True)
_COUNTED_RETURNED: Final = KindTraits(has_generation=True, returns_deleted=True)
_RETURNED_VERSIONED: Final = KindTraits(returns_deleted=True, version_required=True)
_UPSERTED_VERSIONED: Final = KindTraits(create_on_update=True, version_required=True)
_WORKLOAD: Final = KindTraits(has_generation=True, template=_TEMPLATE)
_PERMISSIONS: Final = KindTraits(create_on_update=True, path_names=True)
_FLOWS: Final = KindTraits(has_generation=True, status_alone=True)

_TRAITS: Final[Mapping[str, KindTraits]] = {
    "/endpoints": _UPSERTED,
    "/events": _UPSERTED,
    "/limitranges": _UPSERTED,
    "/namespaces": _RETURNED,
    "/persistentvolumeclaims": _RETURNED,
    "/persistentvolumes": _RETURNED,
    "/pods": _COUNTED_RETURNED,
    "/podtemplates": KindTraits(has_generation=True, returns_deleted=True, template=("template", "spec")),
    "/replicationcontrollers": _WORKLOAD,
    "/resourcequotas": _RETURNED,
    "/serviceaccounts": _RETURNED,
    "/services": KindTraits(returns_deleted=True, create_on_update=True),
    "admissionregistration.k8s.io/mutatingadmissionpolicies": _COUNTED_VERSIONED,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": _COUNTED_VERSIONED,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _COUNTED_VERSIONED,
    "admissionregistration.k8s.io/validatingadmissionpolicies": KindTraits(
        has_generation=True, version_required=True, status_alone=True
    ),
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": _COUNTED_VERSIONED,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _COUNTED_VERSIONED,
    "apiextensions.k8s.io/customresourcedefinitions": _COUNTED_VERSIONED,
    "apiregistration.k8s.io/apiservices": _VERSIONED,
    "apps/daemonsets": _WORKLOAD,
    "apps/deployments": _WORKLOAD,
    "apps/replicasets": _WORKLOAD,
    "apps/statefulsets": _WORKLOAD,
    "batch/cronjobs": KindTraits(has_generation=True, template=_JOB_TEMPLATE),
    "batch/jobs": _WORKLOAD,
    "certificates.k8s.io/clustertrustbundles": _VERSIONED,
    "certificates.k8s.io/podcertificaterequests": _VERSIONED,
    "coordination.k8s.io/leases": _UPSERTED_VERSIONED,
    "discovery.k8s.io/endpointslices": _COUNTED,
    "events.k8s.io/events": _UPSERTED,
    "flowcontrol.apiserver.k8s.io/flowschemas": _FLOWS,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": _FLOWS,
    "networking.k8s.io/ingressclasses": _COUNTED,
    "networking.k8s.io/ingresses": _COUNTED,
    "networking.k8s.io/networkpolicies": _COUNTED,
    "node.k8s.io/runtimeclasses": _UPSERTED_VERSIONED,
    "policy/poddisruptionbudgets": _COUNTED_VERSIONED,
    "rbac.authorization.k8s.io/clusterrolebindings": _PERMISSIONS,
    "rbac.authorization.k8s.io/clusterroles": _PERMISSIONS,
    "rbac.authorization.k8s.io/rolebindings": _PERMISSIONS,
    "rbac.authorization.k8s.io/roles": _PERMISSIONS,
    "resource.k8s.io/deviceclasses": _COUNTED_RETURNED,
    "resource.k8s.io/devicetaintrules": _COUNTED_VERSIONED,
    "resource.k8s.io/resourceclaims": KindTraits(returns_deleted=True, status_alone=True),
    "resource.k8s.io/resourceclaimtemplates": _RETURNED,
    "resource.k8s.io/resourceslices": _COUNTED_RETURNED,
    "scheduling.k8s.io/priorityclasses": _COUNTED,
    "storage.k8s.io/csidrivers": _RETURNED_VERSIONED,
    "storage.k8s.io/csinodes": _RETURNED_VERSIONED,
    "storage.k8s.io/csistoragecapacities": _RETURNED_VERSIONED,
    "storage.k8s.io/storageclasses": _RETURNED,
    "storage.k8s.io/volumeattachments": KindTraits(returns_deleted=True, version_required=True, status_alone=True),
    "storagemigration.k8s.io/storageversionmigrations": _VERSIONED,
}
"""Kinds that are not here have no trait."""


def traits_of(group: str, resource: str) -> KindTraits:
    """Return the traits of a built-in resource.

    >>> traits_of("", "pods").returns_deleted, traits_of("metrics.k8s.io", "pods").returns_deleted
    (True, False)
    """
    return _TRAITS.get(f"{group}/{resource}", _PLAIN)


def known_traits() -> frozenset[str]:
    """Return the ``group/resource`` of every row."""
    return frozenset(_TRAITS)
