"""Derives findings about an operator from the objects of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.object import Unstructured
from opsdk.lifecycle.orphans import DrainResult
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.registered.comparison import (
    RegisteredObject,
    ca_faults,
    compare,
    conversion_faults,
    registered_webhooks,
)
from opsdk.webhook.registered.policies import compare_policy
from opsdk.webhook.registered.policy_targets import RegisteredPolicy

# Seconds after which a pending finalizer is reported.
_SLOW_FINALIZER = 300.0


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        check: the name of the check: ``permissions``, ``definition``, ``webhook``, ``finalizer``, ``lease``.
        level: see `Level`.
        subject: the object, or empty.
        message: the observed state.
        advice: what to do; empty for `Level.OK`.
    """

    check: str
    level: Level
    subject: str = ""
    message: str = ""
    advice: str = ""


def subject_of(obj: Unstructured) -> str:
    """Return kind, namespace and name of an object as text.

    >>> subject_of(Unstructured.from_tree({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}))
    'Node a'
    >>> subject_of(
    ...     Unstructured.from_tree({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "b", "name": "a"}})
    ... )
    'Pod b/a'
    """
    namespace = f"{obj.metadata.namespace}/" if obj.metadata.namespace else ""
    return f"{obj.kind} {namespace}{obj.metadata.name}"


def of_definition(
    expected: JsonObject, live: JsonObject | None, registered: RegisteredObject | None = None
) -> Iterator[Finding]:
    """Compare a CustomResourceDefinition of the operator with the one in the cluster.

    Args:
        expected: of the operator, without its conversion.
        live: of the cluster.
        registered: how the operator follows it; None if it has no webhooks.
    """
    name = expected["metadata"]["name"]

    def finding(level: Level, message: str, advice: str = "") -> Finding:
        return Finding(check="definition", level=level, subject=name, message=message, advice=advice)

    if live is None:
        yield finding(Level.ERROR, "does not exist", "apply it: opsdk generate crd MODULE:CLASS | kubectl apply -f -")
        return
    status: JsonObject = live.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if conditions.get("Established", {}).get("status") != "True":
        reason = conditions.get("NamesAccepted", {}).get("message", "its status has no NamesAccepted condition")
        yield finding(
            Level.ERROR, f"is not established: {reason}", "delete the CustomResourceDefinition with the same names"
        )
    changed = list(_differences(expected["spec"], live["spec"]))
    if changed:
        listed = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        yield finding(
            Level.ERROR, f"differs from the classes: {listed}", "apply the CustomResourceDefinition of this version"
        )
    faults = list(conversion_faults(registered, live, None)) if registered is not None else []
    for fault in faults:
        yield finding(Level.ERROR if fault.critical else Level.WARNING, fault.text, fault.advice)
    stored = [version["name"] for version in live["spec"]["versions"] if version["storage"]]
    if old := [version for version in status.get("storedVersions") or () if version not in stored]:
        text = f"objects may still be stored as {', '.join(old)}"
        yield finding(Level.WARNING, text, "rewrite them: opsdk.recipes.migrate_storage_version")
    if conditions.get("Established", {}).get("status") == "True" and not changed and not faults and not old:
        yield finding(Level.OK, "is served and matches the classes")


def _differences(expected: JsonValue, live: JsonValue, path: str = "spec") -> Iterator[str]:
    """Yield the paths at which `live` differs from `expected`. Extra fields of `live` count only in ``properties``."""
    if isinstance(expected, dict) and isinstance(live, dict):
        for name, value in expected.items():
            if name == "caBundle":
                continue
            if name not in live and value in ({}, [], None, ""):
                continue
            yield from _differences(value, live.get(name), f"{path}.{name}")
        if path.endswith(".properties"):
            yield from (f"{path}.{name}" for name in live if name not in expected)
    elif isinstance(expected, list) and isinstance(live, list) and len(expected) == len(live):
        for index, (one, other) in enumerate(zip(expected, live, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif expected != live:
        yield path


def of_configuration(expected: JsonObject, live: JsonObject | None, endpoints: Mapping[str, int]) -> Iterator[Finding]:
    """Check that a webhook configuration exists, has each ``caBundle``, and that its Services have ready endpoints.

    Args:
        expected: of the operator.
        live: of the cluster.
        endpoints: ready addresses by ``namespace/service``.
    """
    subject = f"{expected['kind']} {expected['metadata']['name']}"

    def finding(level: Level, message: str, advice: str = "") -> Finding:
        return Finding(check="webhook", level=level, subject=subject, message=message, advice=advice)

    declared = RegisteredObject(
        target=InjectionTarget(InjectionKind((expected["apiVersion"], expected["kind"])), expected["metadata"]["name"]),
        webhooks=registered_webhooks(expected),
    )
    faults = [*compare(declared, live, None).faults, *ca_faults(live or {})]
    for fault in faults:
        yield finding(Level.ERROR, fault.text, fault.advice)
    if live is None:
        return
    problems = 0
    for webhook in live.get("webhooks") or ():
        config = webhook["clientConfig"]
        service: JsonObject = config.get("service") or {}
        key = f"{service.get('namespace')}/{service.get('name')}"
        if service and not endpoints.get(key):
            problems += 1
            blocked = webhook.get("failurePolicy", "Fail") == "Fail"
            effect = "every request that it matches is rejected" if blocked else "it is skipped"
            level = Level.ERROR if blocked else Level.WARNING
            yield finding(level, f"no pod is ready behind service {key}: {effect}", "check the operator's pods")
    if not problems and not faults:
        yield finding(Level.OK, f"{len(live['webhooks'])} webhooks are served")


def of_policy(declared: RegisteredPolicy, live: JsonObject | None) -> Iterator[Finding]:
    """Check that an admission policy or binding exists and is as declared."""
    subject = str(declared.target)
    faults = compare_policy(declared, live).faults
    for fault in faults:
        yield Finding(check="policy", level=Level.WARNING, subject=subject, message=fault.text, advice=fault.advice)
    if not faults:
        yield Finding(check="policy", level=Level.OK, subject=subject, message="matches the declaration")


def called_services(configuration: JsonObject) -> Iterator[str]:
    """Return the Services that a webhook configuration calls, as ``namespace/name``."""
    for webhook in configuration.get("webhooks") or ():
        if service := webhook["clientConfig"].get("service"):
            yield f"{service.get('namespace')}/{service.get('name')}"


def slow_finalizers(objects: Iterable[Unstructured], now: datetime) -> Iterator[Finding]:
    """Report objects whose deletion has waited too long for finalizers."""
    for obj in objects:
        since = obj.metadata.deletion_timestamp
        if since is None or (seconds := (now - since).total_seconds()) < _SLOW_FINALIZER:
            continue
        finalizers = ", ".join(obj.metadata.finalizers)
        yield Finding(
            check="finalizer",
            level=Level.ERROR,
            subject=subject_of(obj),
            message=f"has been terminating for {seconds / 60:.0f} minutes and waits for {finalizers}",
            advice=f"find errors with opsdk why {subject_of(obj).partition(' ')[2]}",
        )


ORPHAN_PREFIXES: Final = (
    "controller.cattle.io/",
    "clusterscoped.controller.cattle.io/",
    "wrangler.cattle.io/",
    "objectset.opsdk.dev/",
)
"""Prefixes of the finalizers of lifecycles: of opsdk, and of Rancher's norman and wrangler."""


def of_orphans(result: DrainResult, handled: Collection[str]) -> Iterator[Finding]:
    """Report objects whose deletion waits for a lifecycle finalizer that this operator does not declare.

    Args:
        result: of a dry run of `drain_all` with `ORPHAN_PREFIXES`.
        handled: the finalizers of the operator.
    """
    for drained in result.drained:
        names = [name for name in drained.finalizers if name not in handled]
        if drained.deleting and names:
            yield Finding(
                check="finalizer",
                level=Level.WARNING,
                subject=f"{drained.gvk.kind} {drained.key}",
                message=f"is being deleted and waits for {', '.join(names)}, which this operator does not declare",
                advice=f"if the program is removed: opsdk cleanup --finalizers {names[0]}",
            )
    for gvk, error in result.problems:
        message = f"{gvk.group_kind}: finalizers cannot be read: {error}"
        yield Finding(
            check="finalizer", level=Level.WARNING, message=message, advice="use a kubeconfig with more permissions"
        )


def of_lease(name: str, lease: Lease | None, now: datetime) -> Finding:
    """Check the Lease of the leader election."""

    def finding(level: Level, message: str, advice: str = "check the operator's pods") -> Finding:
        return Finding(check="lease", level=level, subject=name, message=message, advice=advice)

    if lease is None:
        text = "does not exist: the operator has not run here, or runs without leader election"
        return finding(Level.WARNING, text, "start the operator")
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return finding(Level.ERROR, "has no holder: no replica is the leader")
    age = (now - spec.renew_time).total_seconds()
    duration = float(spec.lease_duration_seconds or 0)
    if age > duration:
        return finding(Level.ERROR, f"expired {age - duration:.0f} s ago; its last holder was {spec.holder_identity}")
    return finding(Level.OK, f"is held by {spec.holder_identity}", "")


def worst(findings: Sequence[Finding]) -> Level:
    """Return the worst level.

    >>> worst([Finding(check="lease", level=Level.OK), Finding(check="lease", level=Level.WARNING)])
    <Level.WARNING: 'warning'>
    """
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
