"""The rules that an operator declares, and what its declarations imply."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from client_fakes import Site

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Node, Pod, Secret
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.builder.arguments import OwnsSpec, WatchSpec
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cache.options import ALL_NAMESPACES, ByObject, CacheOptions
from opsdk.cluster.cluster import ClusterOptions
from opsdk.controller.context import Context
from opsdk.controller.options import ControllerOptions
from opsdk.controller.pausing import Pausing
from opsdk.errors import UsageError
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.request import Request
from opsdk.event.sources import KindSource
from opsdk.manager.manager import ManagerOptions
from opsdk.rbac.declared import ControllerKinds, cached_namespaces
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import RbacRule, applies, deletes, patches_status, reads, records_events
from opsdk.rest.config import RestConfig
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.options import WebhookServerOptions


def texts(rules: RuleSet) -> list[str]:
    """The permissions in words."""
    return [str(permission) for permission in rules]


def granted(*rules: RbacRule) -> list[str]:
    """What rules grant in all namespaces."""
    return texts(RuleSet(permission for rule in rules for permission in rule.permissions()))


async def reconcile(request: Request) -> None:
    """Does nothing."""


async def clean_up(obj: Site, ctx: Context) -> None:
    """Does nothing."""


# ------------------------------------------------------------------ rules
def test_a_kind_is_given_in_every_form() -> None:
    """A class, a GVK, an unstructured kind, metadata only and kubectl's text mean the same resource."""
    kinds = (Deployment, Deployment.gvk, unstructured_kind("apps/v1", "Deployment"), metadata_only(Deployment))
    forms = (*kinds, "deployments.apps")
    assert {tuple(granted(RbacRule("get", form))) for form in forms} == {("get deployments.apps",)}


def test_verbs_are_words_or_a_list() -> None:
    """Spaces, commas and lists are the same, in any order, and a double counts once."""
    forms = ("list get", "get,list", ["list", "get", "get"])
    assert {RbacRule(form, Secret) for form in forms} == {RbacRule("get list", Secret)}


def test_the_class_names_its_own_plural_and_scope() -> None:
    """A custom kind needs no server: its class has the plural, and whether it is namespaced."""

    class Policy(Site):
        plural = "policies"
        namespaced = False

    rule = RbacRule("get", Policy, subresource="status", namespaces=["shop"])
    assert texts(RuleSet(rule.permissions())) == ["get policies.demo.opsdk.dev/status"]


def test_names_and_namespaces_multiply() -> None:
    """Each name in each namespace is a permission."""
    rule = RbacRule("get", Secret, resource_names=["a", "b"], namespaces=["x", "y"])
    assert len(list(rule.permissions())) == 4
    assert Permission("get", "", "secrets", "b", "x") in set(rule.permissions())


def test_shortcuts_are_what_the_calls_send() -> None:
    """Each shortcut is the rule of one call; its verbs are those of the request."""
    assert granted(reads(Pod)) == ["get pods", "list pods", "watch pods"]
    assert granted(applies(Pod)) == ["create pods", "patch pods"]
    assert granted(deletes(Pod)) == ["delete pods"]
    assert granted(patches_status(Pod)) == ["patch pods/status"]
    assert granted(records_events()) == ["create events.events.k8s.io", "patch events.events.k8s.io"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RbacRule("", Pod), "needs verbs in lower case"),
        (lambda: RbacRule("GET", Pod), "needs verbs in lower case"),
        (lambda: RbacRule("get"), "needs either resources or paths"),
        (lambda: RbacRule("get", Pod, paths=["/metrics"]), "needs either resources or paths"),
        (lambda: RbacRule("get", paths=["/metrics"], namespaces=["x"]), "neither names nor namespaces"),
        (lambda: RbacRule("get", Pod, namespaces=[]), "remove it to use the namespaces of the cache"),
        (lambda: RbacRule("get", Pod, namespaces="shop"), r"write a list, ['shop']"),
        (lambda: RbacRule("deletecollection", Pod, resource_names=["a"]), "would never match"),
        (lambda: RbacRule("get", "Deployment"), "'Deployment' is not a resource: write it as kubectl does"),
        (lambda: RbacRule("get", "pods/"), "'pods/' is not a resource"),
    ],
)
def test_a_rule_that_allows_nothing_is_refused(make: Callable[[], RbacRule], message: str) -> None:
    """A mistake is an error where it is written, not a role that silently lacks something."""
    with pytest.raises(UsageError, match=re.escape(message)):
        make()


# ------------------------------------------------------------------ what is implied
def test_a_declaration_implies_what_it_surely_uses() -> None:
    """Informers read; a finalizer patches the object; an owner reference updates the owner's finalizers."""
    bare = ControllerKinds(kind=kind_of(Site))
    assert granted(*bare.rbac_rules()) == granted(reads(Site))
    assert granted(*ControllerKinds(watches=(kind_of(Pod),)).rbac_rules()) == granted(reads(Pod))
    finalizes = ControllerKinds(kind=kind_of(Site), has_finalizers=True)
    assert granted(*finalizes.rbac_rules()) == granted(reads(Site), RbacRule("patch", Site))
    owns = ControllerKinds(kind=kind_of(Site), owns=(kind_of(Pod),))
    assert granted(*owns.rbac_rules()) == granted(reads(Site, Pod), RbacRule("update", Site, subresource="finalizers"))


def test_both_forms_of_a_controller_declare_the_same() -> None:
    """The decorator and the builder give equal rules, before and after the operator is prepared."""
    handler = EnqueueRequestForObject()
    decorated = Operator("x")
    decorated.reconciler(
        Site,
        owns=[Pod, OwnsSpec(kind=metadata_only(ConfigMap))],
        watches=[WatchSpec(kind=Node, handler=handler)],
        finalizers={"demo.opsdk.dev/x": clean_up},
        rbac=[applies(Pod)],
    )(reconcile)
    before = decorated.rules()
    decorated.prepare(RestConfig(host="http://localhost:1"))
    built = Operator("x")

    @built.setup
    def controllers(operator: Operator) -> None:
        builder: ControllerBuilder[Site] = operator.controller_for(Site)
        builder.owns(Pod).owns(metadata_only(ConfigMap)).watches(Node, handler).rbac(applies(Pod))
        builder.finalizer("demo.opsdk.dev/x", clean_up).reconciler(reconcile).complete()

    assert not built.rules()
    built.prepare(RestConfig(host="http://localhost:1"))
    assert texts(before) == texts(decorated.rules()) == texts(built.rules())


def test_a_condition_of_pauses_needs_its_writes() -> None:
    """The permission for the status is implied by the option, in both forms."""
    options = ControllerOptions(pausing=Pausing(condition="Paused"))
    decorated, built = Operator("x"), Operator("x")
    decorated.reconciler(Node, options=options)(reconcile)
    built.setup(lambda operator: operator.controller_for(Node, options=options).reconciler(reconcile).complete())
    built.prepare(RestConfig(host="http://localhost:1"))
    assert texts(decorated.rules()) == texts(built.rules())
    assert "patch nodes/status" in texts(decorated.rules())


async def test_sources_of_the_operators_own_cache_count() -> None:
    """A source that watches a kind through the operator's cache needs reads; one of another cluster does not."""
    other = Operator("other")
    other.rbac(RbacRule("get", "nodes"))
    other.reconciler(Pod)(reconcile)
    other.prepare(RestConfig(host="http://localhost:2"))
    operator = Operator("x")
    sources = [
        lambda op: KindSource(op.cluster.cache, Secret, EnqueueRequestForObject()),
        KindSource(other.cluster.cache, ConfigMap, EnqueueRequestForObject()),
    ]
    operator.reconciler(name="sources", sources=sources)(reconcile)
    operator.prepare(RestConfig(host="http://localhost:1"))
    assert texts(operator.rules()) == granted(reads(Secret))
    await operator.cluster.aclose()
    await other.cluster.aclose()


def test_a_cache_of_namespaces_needs_roles_there_only() -> None:
    """Rules without namespaces follow the cache of their kind; cluster-scoped kinds are never limited."""
    cache = CacheOptions(namespaces=["a", "b"], by_kind={Secret.gvk: ByObject(namespaces=["c"])})
    operator = Operator("x", OperatorOptions(cluster=ClusterOptions(cache=cache)))
    operator.rbac(RbacRule("get", Pod, Secret, Node), RbacRule("list", Pod, namespaces=["d"]))
    operator.rbac(RbacRule("watch", Pod, namespaces=[ALL_NAMESPACES]))
    assert texts(operator.rules()) == [
        "get nodes",
        "watch pods",
        "get pods in namespace a",
        "get pods in namespace b",
        "get secrets in namespace c",
        "list pods in namespace d",
    ]


def test_a_cache_of_one_namespace_and_the_rest_needs_all() -> None:
    """Beside the named namespaces, ALL_NAMESPACES in the options is a list across all of them."""
    options = CacheOptions(namespaces=["a", ALL_NAMESPACES])
    (info,) = RbacRule("get", Pod).resources
    assert list(cached_namespaces(options)(info)) == ["", "a"]


def test_leader_election_needs_its_lease_only() -> None:
    """Reads and updates name the Lease, in its namespace; a create cannot be named."""
    options = OperatorOptions(leader_election=True, leader_election_id="lock", leader_election_namespace="system")
    assert texts(Operator("x", options).rules(namespace="elsewhere")) == [
        "create leases.coordination.k8s.io in namespace system",
        'get leases.coordination.k8s.io named "lock" in namespace system',
        'update leases.coordination.k8s.io named "lock" in namespace system',
        "create events.events.k8s.io in namespace system",
    ]
    assert Operator("x", OperatorOptions(leader_election=True)).rules(namespace="here").namespaces == ("here",)


def test_authorized_metrics_need_reviews() -> None:
    """Readers of the metrics are reviewed if the endpoint is served, else nothing is needed."""
    served = ManagerOptions(metrics_bind_address=":8443", metrics_secure_serving=True, metrics_authentication=True)
    assert texts(Operator("x", OperatorOptions(manager=served)).rules()) == [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ]
    off = ManagerOptions(metrics_authentication=True)
    assert not Operator("x", OperatorOptions(manager=off)).rules()


def test_issued_certificates_need_their_secret_and_the_objects_with_a_ca_bundle() -> None:
    """Each object is named; a create of the Secret cannot be. Without webhooks nothing is issued or watched."""
    inject = [InjectionTarget(InjectionKind.API_SERVICE, "v1.books.example.com")]
    certificates = SelfSigned(service="hooks", configurations="site", inject=inject)
    options = OperatorOptions(webhook=WebhookServerOptions(certificates=certificates))
    operator = Operator("x", options)
    assert not operator.rules()
    operator.webhook_for(Site).with_validator(create=lambda _obj, _ctx: None)
    assert texts(operator.rules(namespace="here")) == [
        'get validatingwebhookconfigurations.admissionregistration.k8s.io named "site-validating"',
        'list validatingwebhookconfigurations.admissionregistration.k8s.io named "site-validating"',
        'watch validatingwebhookconfigurations.admissionregistration.k8s.io named "site-validating"',
        'patch validatingwebhookconfigurations.admissionregistration.k8s.io named "site-validating"',
        'get apiservices.apiregistration.k8s.io named "v1.books.example.com"',
        'list apiservices.apiregistration.k8s.io named "v1.books.example.com"',
        'watch apiservices.apiregistration.k8s.io named "v1.books.example.com"',
        'patch apiservices.apiregistration.k8s.io named "v1.books.example.com"',
        "create secrets in namespace here",
        'get secrets named "hooks-tls" in namespace here',
        'update secrets named "hooks-tls" in namespace here',
    ]
