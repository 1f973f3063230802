"""The catalogue of this server's hand-written kinds."""

from __future__ import annotations

from envtest.extensions.definitions import DefinitionStrategy
from envtest.extensions.definitions import defaults as definition_defaults
from envtest.kinds.autoscalers import AutoscalerStrategy
from envtest.kinds.catalogue import Catalogue
from envtest.kinds.core import ClaimStrategy, ConfigMapStrategy, LeaseStrategy, NamespaceStrategy, SecretStrategy
from envtest.kinds.defaults import DEFAULTS
from envtest.kinds.events import EventStrategy
from envtest.kinds.jobs import CronJobStrategy, JobStrategy
from envtest.kinds.pods import PodStrategy
from envtest.kinds.policies import PolicyBindingStrategy, PolicyStrategy
from envtest.kinds.printers import PRINTERS
from envtest.kinds.rbac import BindingStrategy, RoleStrategy
from envtest.kinds.services import ServiceStrategy
from envtest.kinds.webhooks import WebhookStrategy
from envtest.kinds.workloads import (
    DaemonSetStrategy,
    ReplicationControllerStrategy,
    RevisionStrategy,
    StatefulSetStrategy,
    WorkloadStrategy,
)

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
HOOKS = "admissionregistration.k8s.io"
RBAC = "rbac.authorization.k8s.io"


def catalogue() -> Catalogue:
    """A fresh one: strategies may hold what they have allocated."""
    return Catalogue(
        strategies={
            "/namespaces": NamespaceStrategy,
            "/configmaps": ConfigMapStrategy,
            "/secrets": SecretStrategy,
            "/services": ServiceStrategy,
            "/pods": PodStrategy,
            "/events": EventStrategy,
            "events.k8s.io/events": EventStrategy,
            "/persistentvolumeclaims": ClaimStrategy,
            "/persistentvolumes": ClaimStrategy,
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
            DEFINITIONS: DefinitionStrategy,
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
