# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Deployments, replica sets, stateful sets, daemon sets, jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds.base import TableStrategy
from envtest.kinds.pod_rules import validate_pod_spec
from envtest.tables.load import Row
from opsdk.apiserver import problems
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause


def selects(selector: Tree, labels: Tree) -> bool:
    """Whether a label selector of an object matches."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or ())


def _expression(expression: Tree, labels: Tree) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


class WorkloadStrategy(TableStrategy):
    """A selector and a template that fit each other.

    Attributes:
        immutable_selector: whether the selector stays once it is set.
    """

    immutable_selector = True
    counts_annotations = False

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        if row.info.resource == "deployments":
            self.status_keeps = ("ownerReferences", "labels")
        if row.info.resource in ("replicasets", "replicationcontrollers"):
            self.selectable = {"status.replicas": lambda obj: str((obj.get("status") or {}).get("replicas", 0))}

    def initial_status(self, obj: Tree) -> Tree:
        """Some counts are always shown."""
        match self.info.resource:
            case "replicasets" | "replicationcontrollers":
                return {"replicas": 0}
            case "statefulsets":
                return {"replicas": 0, "availableReplicas": 0}
            case "daemonsets":
                keys = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
                return dict.fromkeys(keys, 0)
            case _:
                return {}

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """Numbers, selector, template."""
        spec = obj.get("spec") or {}
        return [*_numbers(spec), *self._selector(spec), *self._template(spec)]

    def _selector(self, spec: Tree) -> Iterator[Cause]:
        selector = spec.get("selector")
        if selector is None:
            yield problems.required("spec.selector")
        elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
            text = f"empty selector is invalid for {_WORDS.get(self.info.resource, self.info.singular)}"
            yield problems.invalid_value("spec.selector", selector, text)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if selector is None or not selects(selector, labels):
            text = "`selector` does not match template `labels`"
            yield problems.invalid_value("spec.template.metadata.labels", labels or None, text)

    def _template(self, spec: Tree) -> Iterator[Cause]:
        template = spec.get("template") or {}
        pod = template.get("spec") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        yield from metadata.labels(labels, "spec.template.labels")
        yield from validate_pod_spec(pod, "spec.template.spec")
        policy = pod.get("restartPolicy")
        if policy not in (None, "Always"):
            yield problems.unsupported("spec.template.spec.restartPolicy", policy, ["Always"])

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """The selector stays."""
        found = list(self.validate(context, obj))
        now, before = obj["spec"].get("selector"), old["spec"].get("selector")
        if self.immutable_selector and now != before:
            found.append(problems.invalid_value("spec.selector", now, "field is immutable"))
        return found

    def generation_changed(self, obj: Tree, old: Tree) -> bool:
        """Deployments count their annotations too."""
        if super().generation_changed(obj, old):
            return True
        annotations = (o["metadata"].get("annotations") or {} for o in (obj, old))
        return self.info.resource == "deployments" and next(annotations) != next(annotations)


_WORDS = {"deployments": "deployment", "statefulsets": "statefulset", "daemonsets": "daemonset"}


def _numbers(spec: Tree) -> Iterator[Cause]:
    for key in ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        value = spec.get(key)
        if value is not None and value < 0:
            yield problems.invalid_value(f"spec.{key}", value, "must be greater than or equal to 0")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        text = "must be greater than minReadySeconds"
        yield problems.invalid_value("spec.progressDeadlineSeconds", deadline, text)


_SET_FIELDS = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


class StatefulSetStrategy(WorkloadStrategy):
    """Most of the spec stays."""

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """See the class."""
        found = list(self.validate(context, obj))
        now = {k: v for k, v in obj["spec"].items() if k not in _SET_FIELDS}
        before = {k: v for k, v in old["spec"].items() if k not in _SET_FIELDS}
        if now != before:
            listed = ", ".join(f"'{f}'" for f in _SET_FIELDS[:-1])
            text = f"updates to statefulset spec for fields other than {listed} and '{_SET_FIELDS[-1]}' are forbidden"
            found.append(problems.not_allowed("spec", text))
        return found


class ReplicationControllerStrategy(WorkloadStrategy):
    """An old-style selector."""

    immutable_selector = False

    def _selector(self, spec: Tree) -> Iterator[Cause]:
        selector = spec.get("selector") or {}
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if not selector:
            yield problems.required("spec.selector")
        if not selects({"matchLabels": selector}, labels):
            text = "`selector` does not match template `labels`"
            yield problems.invalid_value("spec.template.metadata.labels", labels or None, text)


class JobStrategy(TableStrategy):
    """The selector is made from the uid."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.default_propagation = "Orphan"
        self.selectable = {"status.successful": lambda obj: str((obj.get("status") or {}).get("succeeded", 0))}

    def prepare_for_create(self, context: Context, obj: Tree) -> None:
        """Labels for its pods, and the selector that finds them."""
        super().prepare_for_create(context, obj)
        spec, uid, name = obj["spec"], obj["metadata"]["uid"], obj["metadata"].get("name", "")
        spec.setdefault("manualSelector", False)
        if spec["manualSelector"]:
            return
        given = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        inherits = (obj["metadata"].get("labels") or {}) == given
        meta = spec.setdefault("template", {}).setdefault("metadata", {})
        labels = meta.setdefault("labels", {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels.setdefault(f"{prefix}job-name", name)
            labels.setdefault(f"{prefix}controller-uid", uid)
        if not spec.get("selector"):
            spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        if inherits:
            # A job without labels of its own has those of its pods.
            obj["metadata"]["labels"] = dict(labels)

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """Numbers and the template."""
        spec = obj.get("spec") or {}
        pod = (spec.get("template") or {}).get("spec") or {}
        found: list[Cause] = []
        for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
            value = spec.get(key)
            if value is not None and value < 0:
                found.append(problems.invalid_value(f"spec.{key}", value, "must be greater than or equal to 0"))
        found.extend(validate_pod_spec(pod, "spec.template.spec"))
        policy = pod.get("restartPolicy")
        if policy == "Always" or policy is None:
            found.append(problems.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        return found

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """Selector, completions and template stay."""
        found = list(self.validate(context, obj))
        now, before = obj["spec"], old["spec"]
        for key in ("completions", "selector", "template", "completionMode"):
            mutable = key == "template" and before.get("suspend") and not (old.get("status") or {}).get("startTime")
            indexed = key == "completions" and now.get("completionMode") == "Indexed"
            if now.get(key) != before.get(key) and not mutable and not indexed:
                found.append(problems.invalid_value(f"spec.{key}", now.get(key), "field is immutable"))
        return found
