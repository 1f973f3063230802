"""Collects the RBAC rules of an operator: from its controllers, its options and its own declarations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.builder.options import OperatorOptions
from opsdk.controller.external import ExternalResource
from opsdk.controller.options import ControllerOptions
from opsdk.controller.steps.last_reconciled import ANNOTATION
from opsdk.manager.address import is_enabled
from opsdk.rbac.declared import ControllerKinds, cached_namespaces, election_rules, metrics_rules
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import RbacRule, deletes, patches_status, reads, records_events

if TYPE_CHECKING:  # start-up time: most operators have no webhooks
    from opsdk.webhook.certificates.options import SelfSigned
    from opsdk.webhook.registered.comparison import RegisteredObject
    from opsdk.webhook.registered.policy_targets import RegisteredPolicy


def operator_rules(
    options: OperatorOptions,
    *,
    name: str,
    namespace: str,
    controllers: Iterable[ControllerKinds],
    declared: Iterable[RbacRule],
    registered: Sequence[RegisteredObject] = (),
    policies: Sequence[RegisteredPolicy] = (),
    serves_webhooks: bool = True,
) -> RuleSet:
    """Return all RBAC rules that an operator needs. Pure.

    Args:
        options: decide about leader election, metrics, and the namespaces of rules without their own.
        name: of the operator; the default name of its Lease.
        namespace: of the operator; the default namespace of its Lease.
        controllers: the declarations of its controllers.
        declared: rules outside of controllers.
        registered: objects that the operator follows.
        policies: admission policies and bindings that it follows.
        serves_webhooks: it is called through these objects. Else it only reports what changed in its definitions.
    """
    rules = [*chain.from_iterable(kinds.rbac_rules() for kinds in controllers), *declared]
    if options.leader_election:
        rules += election_rules(options.leader_election_id or name, options.leader_election_namespace or namespace)
    if options.manager.metrics_authentication and is_enabled(options.manager.metrics_bind_address):
        rules += metrics_rules()
    if options.pause_config_map:
        names = [options.pause_config_map]
        rules.append(RbacRule("get list watch", "configmaps", resource_names=names, namespaces=[namespace]))
    if not serves_webhooks:
        rules += definition_rules(registered)
    elif registered:
        rules += registration_rules(options.webhook.certificates, registered, namespace)
    rules += policy_rules(policies)
    if options.cluster.cache.namespace_selector is not None:
        rules.append(reads("namespaces"))
    namespaces = cached_namespaces(options.cluster.cache)
    return RuleSet(chain.from_iterable(rule.permissions(namespaces) for rule in rules)).normalized()


class DeclaredController(NamedTuple):
    """A controller of `Operator.reconciler`, with what rules and finalizers depend on.

    Attributes:
        name: of the controller; empty without a reconciled kind.
        kinds: what it reads, with the rules declared next to it.
        options: its own; None for those of the operator.
        externals: its external resources.
        fields_of: the kinds of which it applies single fields.
        finalizers: the names of its finalizers.
        is_daemon: it only runs a daemon.
    """

    name: str
    kinds: ControllerKinds
    options: ControllerOptions | None
    externals: tuple[ExternalResource[Any, Any], ...]
    fields_of: tuple[Kind[AnyObject], ...] = ()
    finalizers: tuple[str, ...] = ()
    is_daemon: bool = False

    def effective_options(self, default: ControllerOptions) -> ControllerOptions:
        """Return its options. Conditions and records in the default ones belong to controllers that reconcile."""
        if self.options is None and self.is_daemon:
            return replace(default, error_condition="", ready_condition="", last_reconciled="")
        return self.options or default

    def controller_kinds(self, default: ControllerOptions) -> ControllerKinds:
        """Return the kinds, with the rules that its options need."""
        effective, owns = self.effective_options(default), self.kinds.owns
        rules = option_rules(self.kinds.kind, effective, owns, self.externals, self.fields_of)
        return replace(self.kinds, implied=tuple(rules))

    def deletes_children(self, default: ControllerOptions) -> bool:
        """Whether a finalizer deletes its children or external resources, or takes back fields."""
        if self.kinds.kind is None:
            return False
        return bool(self.externals or self.fields_of) or (self.options or default).delete_in_reverse


def option_rules(
    kind: Kind[AnyObject] | None,
    options: ControllerOptions,
    owns: Sequence[Kind[AnyObject]],
    externals: Sequence[ExternalResource[Any, Any]],
    fields_of: Sequence[Kind[AnyObject]],
) -> Iterable[RbacRule]:
    """Return the rules of what a controller's options write to its objects, and of the deletion of its children."""
    if kind is None:
        return
    conditions = options.error_condition or options.pause_condition or options.ready_condition
    if conditions or externals:
        yield patches_status(kind)
    if options.last_reconciled == ANNOTATION:
        yield RbacRule("patch", kind)
    elif options.last_reconciled and not (conditions or externals):
        yield patches_status(kind)
    if options.retry_limit is not None or options.finalizer_retry_limit is not None or options.last_reconciled:
        yield records_events()
    if options.delete_in_reverse or externals or fields_of:
        yield RbacRule("patch", kind)
    if fields_of:
        yield RbacRule("patch", *fields_of)
    if options.delete_in_reverse and owns:
        yield deletes(*owns)


def definition_rules(definitions: Iterable[RegisteredObject]) -> Iterable[RbacRule]:
    """Return the rules with which an operator without webhooks follows its definitions."""
    for each in definitions:
        yield RbacRule("get list watch", each.target.kind.kind, resource_names=[each.target.name])


def registration_rules(
    certificates: SelfSigned | None, registered: Iterable[RegisteredObject], namespace: str
) -> Iterable[RbacRule]:
    """Return the rules of `opsdk.webhook.registered`. All but the create of the Secret are limited to names.

    Args:
        certificates: name the Secret. Without them, objects are watched only: the operator does not know its address.
        registered: the objects that are followed.
        namespace: of the operator; the default namespace of the Secret.
    """
    if certificates is not None:
        place = [certificates.namespace or namespace]
        yield RbacRule("create", "secrets", namespaces=place)
        yield RbacRule("get update", "secrets", resource_names=[certificates.secret], namespaces=place)
    verbs = "get list watch" if certificates is None else "get list watch patch"
    for each in registered:
        yield RbacRule(verbs, each.target.kind.kind, resource_names=[each.target.name])


def policy_rules(policies: Iterable[RegisteredPolicy]) -> Iterable[RbacRule]:
    """Return the rules with which an operator follows its policies and creates deleted bindings again."""
    return chain.from_iterable(each.rules() for each in policies)
