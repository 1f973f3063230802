"""Reads a cluster for `opsdk.cli.doctor.findings`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opsdk.aio.clock import utc_now
from opsdk.api.apps.v1 import Deployment
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import Namespace, Service
from opsdk.api.discovery.v1 import EndpointSlice
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.apimachinery.object import to_dict
from opsdk.builder.operator import Operator
from opsdk.cli.doctor.findings import (
    ORPHAN_PREFIXES,
    Finding,
    Level,
    called_services,
    of_configuration,
    of_definition,
    of_lease,
    of_orphans,
    of_policy,
    slow_finalizers,
    subject_of,
)
from opsdk.cli.doctor.roles import ClusterRoles, account_of, flags_of, of_roles
from opsdk.cli.generate.rbac import rules_of
from opsdk.cli.package.deployment import webhook_service_name
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError, ForbiddenError, NoMatchError, OpsdkError
from opsdk.lifecycle.orphans import drain_all
from opsdk.rbac.observed import with_repeated_events
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.review import PermissionReviewer
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.configurations import WebhookClientConfig

# Only names and webhooks are compared, so the address does not matter.
_PLACEHOLDER_CLIENT_CONFIG = WebhookClientConfig(url="https://localhost")


async def examine(
    operator: Operator, config: RestConfig, *, namespace: str, orphans: bool = False, recorded: RuleSet | None = None
) -> list[Finding]:
    """Return the findings of all checks, in the order of the checks.

    A check that fails with Forbidden is reported as a finding.

    Args:
        operator: prepared or not; it is not started.
        config: of the cluster.
        namespace: of the operator.
        orphans: also read the metadata of all objects, for finalizers that the operator does not declare.
        recorded: permissions that the operator used; granted ones beyond them are reported. None: beyond the declared.

    Raises:
        OpsdkError: the server cannot be reached.
    """
    findings: list[Finding] = []
    async with Cluster(config) as cluster:
        client = cluster.uncached
        checks = [
            ("permissions", _permissions(operator, cluster, namespace, recorded)),
            ("definition", _definitions(operator, client)),
            ("webhook", _webhooks(operator, client)),
            ("policy", _policies(operator, client)),
            ("finalizer", _deletions(operator, client)),
            ("lease", _lease(operator, client, namespace)),
        ]
        if orphans:
            checks.insert(-1, ("finalizer", _orphans(operator, cluster)))
        for check, work in checks:
            try:
                findings += await work
            except ApiError as error:
                advice = "use a kubeconfig with more permissions"
                findings.append(Finding(check=check, level=Level.WARNING, message=str(error), advice=advice))
    return findings


async def _permissions(
    operator: Operator, cluster: Cluster, namespace: str, recorded: RuleSet | None
) -> Iterable[Finding]:
    """Check the roles of the deployed service account; without a Deployment, the permissions of this user."""
    client = cluster.uncached
    names = (operator.name, webhook_service_name(operator.name))
    try:
        candidates = [await client.get_or_none(Deployment, f"{namespace}/{name}") for name in names]
    except ForbiddenError:
        candidates = []
    deployments = [deployment for deployment in candidates if deployment is not None]
    account = account_of(deployments)
    if not account:
        return await _own_permissions(operator, cluster, namespace)
    declared, implied = _deployed_rules(operator, deployments, namespace)
    if (selector := operator.options.cluster.cache.namespace_selector) is not None:
        selected = [each.metadata.name for each in await client.list(metadata_only(Namespace), label_selector=selector)]
        declared, implied = declared.in_selected(selected), implied.in_selected(selected)
    roles = ClusterRoles(
        cluster_roles=list(await client.list(ClusterRole)),
        roles=list(await client.list(Role)),
        cluster_role_bindings=list(await client.list(ClusterRoleBinding)),
        role_bindings=list(await client.list(RoleBinding)),
    )
    bound = roles.bound_to(account, namespace)
    used = declared if recorded is None else with_repeated_events(recorded) | implied
    needed = declared | (recorded or RuleSet())
    return of_roles(f"{namespace}/{account}", bound, needed, used, recorded=recorded is not None)


def _deployed_rules(operator: Operator, deployments: Sequence[Deployment], namespace: str) -> tuple[RuleSet, RuleSet]:
    """Return the declared and the implied permissions of an operator with the flags of its Deployments."""
    declared, implied, options = RuleSet(), RuleSet(), operator.options
    for deployment in deployments:
        operator.options = options
        declared |= rules_of(operator, namespace, flags_of(deployment.spec.template.spec.containers[0]))
        implied |= operator.implied_rules(namespace=namespace)
    return declared, implied


async def _own_permissions(operator: Operator, cluster: Cluster, namespace: str) -> list[Finding]:
    rules = operator.rules(namespace=namespace)
    missing = await PermissionReviewer(cluster.transport, cluster.scheme).missing(rules)
    if not missing:
        return [
            Finding(check="permissions", level=Level.OK, message=f"this user has all {len(list(rules))} permissions")
        ]
    advice = "opsdk generate rbac prints the roles"
    return [
        Finding(check="permissions", level=Level.ERROR, message=f"this user cannot {permission}", advice=advice)
        for permission in missing
    ]


async def _definitions(operator: Operator, client: Client) -> list[Finding]:
    findings: list[Finding] = []
    registered = {each.target: each for each in operator.registered_objects()}
    for expected in operator.definitions(_PLACEHOLDER_CLIENT_CONFIG):
        target = InjectionTarget(InjectionKind.CONVERSION, expected["metadata"]["name"])
        # The address of the webhook server depends on the installation.
        expected["spec"].pop("conversion", None)
        live = await client.get_or_none(target.kind.kind, target.name)
        findings += of_definition(expected, to_dict(live) if live is not None else None, registered.get(target))
    return findings


async def _webhooks(operator: Operator, client: Client) -> list[Finding]:
    """Return what is wrong with the webhook configurations in the cluster, and with their endpoints."""
    configurations = operator.webhook_configurations(_PLACEHOLDER_CLIENT_CONFIG)
    if not configurations:
        return []
    endpoints: Counter[str] = Counter()
    for endpoint_slice in await client.list(EndpointSlice):
        service = endpoint_slice.metadata.labels.get("kubernetes.io/service-name", "")
        ready = sum(endpoint.conditions.ready is not False for endpoint in endpoint_slice.endpoints)
        endpoints[f"{endpoint_slice.metadata.namespace}/{service}"] += ready
    findings: list[Finding] = []
    for expected in configurations:
        kind = unstructured_kind(expected["apiVersion"], expected["kind"])
        live = await client.get_or_none(kind, expected["metadata"]["name"])
        tree = to_dict(live) if live is not None else None
        for key in called_services(tree or {}):
            # The server resolves such a name itself, so the Service has no endpoints.
            if not endpoints[key] and await _is_external_name(client, key):
                endpoints[key] = 1
        findings += of_configuration(expected, tree, endpoints)
    return findings


async def _policies(operator: Operator, client: Client) -> list[Finding]:
    findings: list[Finding] = []
    for declared in operator.registered_policies():
        live = await client.get_or_none(declared.target.kind.kind, declared.target.name)
        findings += of_policy(declared, to_dict(live) if live is not None else None)
    return findings


async def _is_external_name(client: Client, key: str) -> bool:
    service = await client.get_or_none(Service, key)
    return service is not None and service.spec.type == "ExternalName"


async def _deletions(operator: Operator, client: Client) -> list[Finding]:
    findings: list[Finding] = []
    for gvk in dict.fromkeys(cls.gvk for cls in operator.custom_kinds()):
        try:
            objects = await client.list(unstructured_kind(gvk.api_version, gvk.kind))
        except NoMatchError:
            continue  # the CRD check reports it
        findings += slow_finalizers(objects, utc_now())
    return findings


async def _orphans(operator: Operator, cluster: Cluster) -> list[Finding]:
    """Read the metadata of all objects, as ``opsdk cleanup --finalizers`` does."""
    return list(of_orphans(await drain_all(cluster, ORPHAN_PREFIXES, dry_run=True), operator.finalizer_names()))


async def _lease(operator: Operator, client: Client, namespace: str) -> list[Finding]:
    options = operator.options
    if not options.leader_election:
        return []
    name, where = options.leader_election_id or operator.name, options.leader_election_namespace or namespace
    lease = await client.get_or_none(Lease, f"{where}/{name}")
    return [of_lease(f"{where}/{name}", lease, utc_now())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One thing that an operator leaves in a cluster.

    Attributes:
        subject: the object.
        action: ``delete``, or ``remove finalizer`` with its names.
    """

    subject: str
    action: str


async def clean(operator: Operator, config: RestConfig, *, definitions: bool, dry_run: bool) -> list[Removal]:
    """Remove what the operator leaves in a cluster, and return it.

    Finalizers come first, then webhook configurations and policies: without the operator, they block other clients.

    Args:
        operator: its leftovers are removed; it must be stopped.
        config: of the cluster.
        definitions: delete the CustomResourceDefinitions too, and with them every object of these kinds.
        dry_run: write nothing.

    Raises:
        OpsdkError: the server cannot be reached, or refuses a request.
    """
    async with Cluster(config) as cluster:
        client = cluster.uncached
        removals = await _remove_finalizers(operator, client, dry_run=dry_run)
        configurations = operator.webhook_configurations(_PLACEHOLDER_CLIENT_CONFIG)
        for tree in (*configurations, *reversed(operator.admission_policies())):
            removals += await _delete(client, tree, dry_run=dry_run)
        for tree in operator.definitions(_PLACEHOLDER_CLIENT_CONFIG) if definitions else ():
            try:
                removals += await _delete(client, tree, dry_run=dry_run)
            except OpsdkError as error:
                error.add_note("finalizers, webhooks and policies are already removed")
                raise
    return removals


async def _remove_finalizers(operator: Operator, client: Client, *, dry_run: bool) -> list[Removal]:
    """Remove the operator's finalizers from its custom objects. Return what was, or would be, removed."""
    removals: list[Removal] = []
    finalizers = operator.finalizer_names()
    for gvk in dict.fromkeys(cls.gvk for cls in operator.custom_kinds()):
        try:
            objects = await client.list(unstructured_kind(gvk.api_version, gvk.kind))
        except NoMatchError:
            continue  # without a CRD, there are no objects
        for obj in objects:
            names = [name for name in obj.metadata.finalizers if name in finalizers]
            if not names:
                continue
            if not dry_run:
                obj.metadata.finalizers = [name for name in obj.metadata.finalizers if name not in finalizers]
                await client.update(obj)
            removals.append(Removal(subject=subject_of(obj), action=f"remove finalizer {', '.join(names)}"))
    return removals


async def _delete(client: Client, tree: JsonObject, *, dry_run: bool) -> list[Removal]:
    live = await client.get_or_none(unstructured_kind(tree["apiVersion"], tree["kind"]), tree["metadata"]["name"])
    if live is None:
        return []
    if not dry_run:
        await client.delete(live, missing_ok=True)
    return [Removal(subject=subject_of(live), action="delete")]
