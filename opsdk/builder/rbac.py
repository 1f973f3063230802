"""The RBAC rules of an operator: of its controllers, of its options, and those that it declares itself."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from opsdk.builder.options import OperatorOptions
from opsdk.manager.http import is_enabled
from opsdk.rbac.declared import METRICS_AUTHORIZATION, ControllerKinds, cached_namespaces, election_rules
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import RbacRule
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.options import SelfSigned

_RESOURCES = {
    InjectionKind.VALIDATING: "validatingwebhookconfigurations.admissionregistration.k8s.io",
    InjectionKind.MUTATING: "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    InjectionKind.CONVERSION: "customresourcedefinitions.apiextensions.k8s.io",
    InjectionKind.API_SERVICE: "apiservices.apiregistration.k8s.io",
}


def operator_rules(
    options: OperatorOptions,
    *,
    name: str,
    namespace: str,
    controllers: Iterable[ControllerKinds],
    declared: Iterable[RbacRule],
    injected: Iterable[InjectionTarget] = (),
) -> RuleSet:
    """Return everything that an operator may do. Pure.

    Args:
        options: decide about leader election, metrics, and the namespaces of rules without their own.
        name: of the operator; the default name of its Lease.
        namespace: of the operator; the default namespace of its Lease.
        controllers: the declarations of its controllers.
        declared: rules of no controller.
        injected: objects whose ``caBundle`` the operator keeps up to date.
    """
    rules = [*chain.from_iterable(kinds.rbac_rules() for kinds in controllers), *declared]
    if options.leader_election:
        rules += election_rules(options.leader_election_id or name, options.leader_election_namespace or namespace)
    if options.manager.metrics_authentication and is_enabled(options.manager.metrics_bind_address):
        rules.append(METRICS_AUTHORIZATION)
    if options.webhook.certificates is not None and (targets := list(injected)):
        rules += certificate_rules(options.webhook.certificates, targets, namespace)
    namespaces = cached_namespaces(options.cluster.cache)
    return RuleSet(chain.from_iterable(rule.permissions(namespaces) for rule in rules)).normalized()


def certificate_rules(
    certificates: SelfSigned, targets: Iterable[InjectionTarget], namespace: str
) -> Iterable[RbacRule]:
    """Return what the certificates of a webhook server need: their Secret, and the objects with a ``caBundle``."""
    where = [certificates.namespace or namespace]
    yield RbacRule("create", "secrets", namespaces=where)
    yield RbacRule(["get", "update"], "secrets", resource_names=[certificates.secret], namespaces=where)
    names: dict[InjectionKind, list[str]] = {}
    for target in (*targets, *certificates.inject):
        names.setdefault(target.kind, []).append(target.name)
    for kind, listed in names.items():
        yield RbacRule(["get", "patch"], _RESOURCES[kind], resource_names=listed)
