"""``PodSecurity``: enforce, audit and warn according to the namespace's labels.

Upstream: k8s.io/pod-security-admission/admission/admission.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from envtest.admission.pod_security.checks import Violation, violations
from envtest.admission.pod_security.levels import PREFIX, LevelVersion, policy_of
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin, resource_path, writes
from opsdk.structured_merge.value import JsonObject, JsonValue

_MOST_PODS: Final = 3000
"""The maximum number of existing pods that are evaluated when the labels of their namespace change."""
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "replicationcontrollers": ("spec", "template"),
    "podtemplates": ("template",),
    "apps/deployments": ("spec", "template"),
    "apps/replicasets": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "apps/daemonsets": ("spec", "template"),
    "batch/jobs": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
}
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/"


class PodSecurity(Plugin):
    """Checks pods and templates against the levels in the labels of their namespace.

    Args:
        namespace: returns a namespace, or None if it does not exist.
        pods: returns the pods of a namespace.
    """

    resources = ("namespaces", "pods", "pods/ephemeralcontainers", "pods/resize", *_TEMPLATES)

    def __init__(
        self, namespace: Callable[[str], JsonObject | None], pods: Callable[[str], Sequence[JsonObject]]
    ) -> None:
        self._namespace = namespace
        self._pods = pods

    async def validate(self, attributes: Attributes) -> None:
        """Check namespaces, pods, and workloads with a pod template."""
        info = attributes.served.info
        if attributes.operation not in ("CREATE", "UPDATE") or attributes.obj is None:
            return
        if writes(attributes, "namespaces", "CREATE", "UPDATE"):
            obj, old = attributes.obj or {}, attributes.old
            name = obj["metadata"].get("name", "")
            policy, wrong = policy_of(obj["metadata"].get("labels"))
            before, wrong_before = policy_of(None if old is None else old["metadata"].get("labels"))
            if wrong and (old is None or wrong != wrong_before):
                raise api_errors.invalid("Namespace", "", name, wrong)
            if old is None or not _is_stricter(policy.enforce, before.enforce):
                return
            for text in pod_warnings(name, policy.enforce, self._pods(name)):
                attributes.warn(text)
        elif info.resource == "pods" and not info.group and info.subresource in ("", "ephemeralcontainers", "resize"):
            # Updates are only evaluated if they change a field that the checks read.
            if attributes.old is None or bool(_evaluated_fields(attributes.obj) != _evaluated_fields(attributes.old)):
                self._check_pod(attributes, attributes.obj, enforce=True)
        else:
            path = _TEMPLATES.get(resource_path(info))
            template = _object_at(attributes.obj, path) if path is not None else None
            if template is not None:
                self._check_pod(attributes, template, enforce=False)

    # -------------------------------------------------------------- pods
    def _check_pod(self, attributes: Attributes, pod: JsonObject, *, enforce: bool) -> None:
        """Judge one pod by the namespace's policy: annotate, warn, and raise 403 if it is enforced."""
        namespace_object = self._namespace(attributes.namespace)
        policy = policy_of((namespace_object or {"metadata": {}})["metadata"].get("labels"))[0]
        if enforce:
            attributes.call.annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
        if policy.lenient:
            return
        meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        violated = violations(policy.audit, meta, spec)
        if violated:
            attributes.call.annotate(f"{PREFIX}audit-violations", _would_violate(policy.audit, violated))
        violated = violations(policy.enforce, meta, spec) if enforce else []
        if violated:
            reason = f'violates PodSecurity "{policy.enforce}": {", ".join(map(str, violated))}'
            raise api_errors.forbidden(attributes.served.info, attributes.name, reason)
        violated = violations(policy.warn, meta, spec)
        if violated:
            attributes.warn(_would_violate(policy.warn, violated))

    # -------------------------------------------------------------- namespaces


def _would_violate(demand: LevelVersion, violations: Sequence[Violation]) -> str:
    return f'would violate PodSecurity "{demand}": {", ".join(map(str, violations))}'


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether the new level can reject pods that the old one allowed."""
    if new == old or new.lenient:
        return False
    return new.minor != old.minor or new.strictness > old.strictness


def pod_warnings(namespace: str, demand: LevelVersion, pods: Sequence[JsonObject]) -> Iterator[str]:
    """Return warnings for existing pods that violate a new policy; equal violations are merged."""
    chosen = prioritized(pods)
    broken: dict[str, list[str]] = {}
    for pod in chosen[:_MOST_PODS]:
        violated = violations(demand, pod["metadata"], pod.get("spec") or {})
        if violated:
            broken.setdefault(", ".join(v.reason for v in violated), []).append(pod["metadata"]["name"])
    if len(chosen) > _MOST_PODS:
        scope = f"the first {_MOST_PODS} of {len(chosen)} existing pods"
        yield f"new PodSecurity enforce level only checked against {scope}"
    if broken:
        yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{demand}"'
    yield from sorted(f"{names[0]}{_others(len(names) - 1)}: {text}" for text, names in broken.items())


def _others(count: int) -> str:
    return "" if not count else f" (and {count} other pod{'s' if count > 1 else ''})"


def prioritized(pods: Sequence[JsonObject]) -> list[JsonObject]:
    """Order pods so that one pod of each controller is first."""
    messages: set[str] = set()
    first, later = list[JsonObject](), list[JsonObject]()
    for pod in pods:
        owner = next((o["uid"] for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), None)
        (later if owner in messages else first).append(pod)
        if owner is not None:
            messages.add(owner)
    return [*first, *later]


def _evaluated_fields(pod: JsonObject) -> JsonValue:
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    images = [[(c.get("name"), c.get("image")) for c in spec.get(key) or ()] for key in _CONTAINERS]
    return images, {key: value for key, value in annotations.items() if _SECCOMP in key}


def _object_at(obj: JsonObject, path: Sequence[str]) -> JsonObject | None:
    value: JsonValue = obj
    for key in path:
        value = (value or {}).get(key)
    return value if isinstance(value, dict) else None
