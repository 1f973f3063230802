"""The catalogue of this server's hand-written kinds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from envtest.extensions.definitions import DefinitionStrategy
from envtest.extensions.definitions import defaults as definition_defaults
from envtest.kinds import (
    address_rules,
    claim_rules,
    cluster_rules,
    device_rules,
    device_status_rules,
    flow_rules,
    kind_warnings,
    network_rules,
    node_rules,
    slice_rules,
    storage_rules,
)
from envtest.kinds.api_services import SERVICES, ApiServiceStrategy
from envtest.kinds.autoscalers import AutoscalerStrategy
from envtest.kinds.catalogue import Catalogue
from envtest.kinds.core import ConfigMapStrategy, LeaseStrategy, NamespaceStrategy, SecretStrategy
from envtest.kinds.defaults import DEFAULTS
from envtest.kinds.events import EventStrategy
from envtest.kinds.jobs import CronJobStrategy, JobStrategy
from envtest.kinds.limit_ranges import LimitRangeStrategy
from envtest.kinds.persistent_volumes import PersistentVolumeStrategy
from envtest.kinds.pods import PodStrategy
from envtest.kinds.policies import PolicyBindingStrategy, PolicyStrategy
from envtest.kinds.printers import PRINTERS
from envtest.kinds.priority_classes import PriorityClassStrategy
from envtest.kinds.quotas import ResourceQuotaStrategy
from envtest.kinds.rbac import BindingStrategy, RoleStrategy
from envtest.kinds.ruled import RuledStrategy, Rules
from envtest.kinds.services import ServiceStrategy
from envtest.kinds.signing_requests import SigningRequestStrategy
from envtest.kinds.webhooks import WebhookStrategy
from envtest.kinds.workload_rules import validate_pod_template
from envtest.kinds.workloads import (
    DaemonSetStrategy,
    ReplicationControllerStrategy,
    RevisionStrategy,
    StatefulSetStrategy,
    WorkloadStrategy,
)
from opsdk.apimachinery import validation
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def _nothing(_: JsonObject) -> Iterator[Cause]:
    return iter(())


def _spec_field(key: str, obj: JsonObject) -> str:
    return str((obj.get("spec") or {}).get(key, ""))


RULES: dict[str, Rules] = {
    "/persistentvolumeclaims": Rules(
        new=claim_rules.validate_claim,
        changed=claim_rules.validate_claim_update,
        status=claim_rules.validate_claim_status,
        initial_status={"phase": "Pending"},
        warnings=kind_warnings.claim_warnings,
        prepare=lambda _context, obj, old: claim_rules.share_source(obj, old),
    ),
    "/serviceaccounts": Rules(new=_nothing, warnings=kind_warnings.account_warnings),
    "/podtemplates": Rules(
        new=lambda obj: validate_pod_template(obj.get("template") or {}, "template"),
        warnings=kind_warnings.template_warnings,
    ),
    "storage.k8s.io/storageclasses": Rules(
        new=storage_rules.validate_class,
        changed=storage_rules.validate_class_update,
        warnings=kind_warnings.class_warnings,
    ),
    "storage.k8s.io/csistoragecapacities": Rules(
        new=storage_rules.validate_capacity, changed=storage_rules.validate_capacity_update
    ),
    "storage.k8s.io/volumeattributesclasses": Rules(
        new=storage_rules.validate_attributes, changed=storage_rules.validate_attributes_update
    ),
    "networking.k8s.io/ingressclasses": Rules(
        new=address_rules.validate_ingress_class, changed=address_rules.validate_ingress_class_update
    ),
    "networking.k8s.io/ipaddresses": Rules(
        new=address_rules.validate_address,
        changed=address_rules.validate_address_update,
        name=address_rules.address_name,
    ),
    "networking.k8s.io/servicecidrs": Rules(
        new=address_rules.validate_blocks, changed=address_rules.validate_blocks_update
    ),
    "resource.k8s.io/deviceclasses": Rules(new=device_rules.validate_device_class),
    "resource.k8s.io/resourceclaims": Rules(
        new=device_rules.validate_device_claim,
        changed=device_rules.validate_device_claim_update,
        status=device_status_rules.validate_claim_status,
    ),
    "resource.k8s.io/resourceclaimtemplates": Rules(
        new=device_rules.validate_claim_template, changed=device_rules.validate_claim_template_update
    ),
    "resource.k8s.io/resourceslices": Rules(
        new=device_rules.validate_slice,
        changed=device_rules.validate_slice_update,
        prepare=device_rules.stamp_taints,
        selectable={key: partial(_spec_field, key.removeprefix("spec.")) for key in ("spec.nodeName", "spec.driver")},
        wrong_field="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
    ),
    "storage.k8s.io/csidrivers": Rules(
        new=storage_rules.validate_driver,
        changed=storage_rules.validate_driver_update,
        prepare=storage_rules.count_driver,
        name=validation.path_segment,
    ),
    "storage.k8s.io/csinodes": Rules(
        new=storage_rules.validate_driver_node, changed=storage_rules.validate_driver_node_update
    ),
    "storage.k8s.io/volumeattachments": Rules(
        new=storage_rules.validate_attachment,
        changed=storage_rules.validate_attachment_update,
        initial_status={"attached": False},
    ),
    "node.k8s.io/runtimeclasses": Rules(
        new=storage_rules.validate_runtime,
        changed=storage_rules.validate_runtime_update,
        warnings=kind_warnings.runtime_warnings,
    ),
    "/nodes": Rules(
        warnings=kind_warnings.node_warnings,
        new=node_rules.validate_node,
        changed=node_rules.validate_node_update,
        status=node_rules.validate_node_status,
        initial_status=None,
        selectable={
            "spec.unschedulable": lambda obj: str(bool((obj.get("spec") or {}).get("unschedulable"))).lower(),
        },
    ),
    "/endpoints": Rules(new=network_rules.validate_endpoints),
    "discovery.k8s.io/endpointslices": Rules(
        new=slice_rules.validate_endpoint_slice,
        changed=slice_rules.validate_slice_update,
        warnings=slice_rules.slice_warnings,
        prepare=slice_rules.forget_topology,
        counted=lambda obj: obj["metadata"].get("labels") or {},
    ),
    "networking.k8s.io/networkpolicies": Rules(
        new=network_rules.validate_network_policy, warnings=kind_warnings.network_policy_warnings
    ),
    "networking.k8s.io/ingresses": Rules(
        new=network_rules.validate_ingress,
        changed=lambda obj, _old: network_rules.validate_ingress_spec(obj.get("spec") or {}),
        status=network_rules.validate_ingress_status,
        initial_status={"loadBalancer": {}},
        warnings=kind_warnings.ingress_warnings,
    ),
    "policy/poddisruptionbudgets": Rules(
        new=cluster_rules.validate_budget,
        status=cluster_rules.validate_budget_status,
        name=validation.path_segment,
        initial_status=dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
    ),
    "flowcontrol.apiserver.k8s.io/flowschemas": Rules(
        new=flow_rules.validate_flow_schema, status=flow_rules.validate_flow_status
    ),
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": Rules(
        new=flow_rules.validate_priority_level, status=flow_rules.validate_flow_status
    ),
}
"""Kinds whose strategy is nothing but functions on objects, by ``group/resource``."""

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
HOOKS = "admissionregistration.k8s.io"
RBAC = "rbac.authorization.k8s.io"


def catalogue() -> Catalogue:
    """A fresh one: strategies may hold what they have allocated."""
    return Catalogue(
        strategies={
            "/namespaces": NamespaceStrategy,
            "/persistentvolumes": PersistentVolumeStrategy,
            "/configmaps": ConfigMapStrategy,
            "/secrets": SecretStrategy,
            "/services": ServiceStrategy,
            "/pods": PodStrategy,
            "/events": EventStrategy,
            "events.k8s.io/events": EventStrategy,
            "certificates.k8s.io/certificatesigningrequests": SigningRequestStrategy,
            "/limitranges": LimitRangeStrategy,
            "/resourcequotas": ResourceQuotaStrategy,
            "scheduling.k8s.io/priorityclasses": PriorityClassStrategy,
            "/replicationcontrollers": ReplicationControllerStrategy,
            "apps/deployments": WorkloadStrategy,
            "apps/replicasets": WorkloadStrategy,
            "apps/daemonsets": DaemonSetStrategy,
            "apps/controllerrevisions": RevisionStrategy,
            "apps/statefulsets": StatefulSetStrategy,
            "autoscaling/horizontalpodautoscalers": AutoscalerStrategy,
            "batch/jobs": JobStrategy,
            "batch/cronjobs": CronJobStrategy,
            "coordination.k8s.io/leases": LeaseStrategy,
            **{key: partial(RuledStrategy, rules=rules) for key, rules in RULES.items()},
            DEFINITIONS: DefinitionStrategy,
            SERVICES: lambda row, has_status: ApiServiceStrategy(row, has_status=has_status),
            f"{HOOKS}/mutatingwebhookconfigurations": WebhookStrategy,
            f"{HOOKS}/validatingwebhookconfigurations": WebhookStrategy,
            f"{HOOKS}/mutatingadmissionpolicies": PolicyStrategy,
            f"{HOOKS}/validatingadmissionpolicies": PolicyStrategy,
            f"{HOOKS}/mutatingadmissionpolicybindings": PolicyBindingStrategy,
            f"{HOOKS}/validatingadmissionpolicybindings": PolicyBindingStrategy,
            f"{RBAC}/roles": RoleStrategy,
            f"{RBAC}/clusterroles": RoleStrategy,
            f"{RBAC}/rolebindings": BindingStrategy,
            f"{RBAC}/clusterrolebindings": BindingStrategy,
        },
        defaults={**DEFAULTS, DEFINITIONS: definition_defaults},
        printers=PRINTERS,
    )
