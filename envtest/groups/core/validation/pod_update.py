"""Validation of updates of pods and of their ephemeral containers.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.codec.internal_form import CORE, POD_SPEC, difference, shown
from envtest.groups.common import validation
from envtest.groups.core.validation.affinity import REQUIRED
from envtest.groups.core.validation.pod_annotations import MIRROR
from opsdk.apiserver import api_errors
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_FROZEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SELECTOR: Final = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
_TERMS: Final = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
_TERM_TYPE: Final = f"{CORE}NodeSelectorTerm"
_TERM: Final = "only additions are allowed (no mutations or deletions)"


def validate_pod_update(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: only images, a shorter deadline, added tolerations and removed gates."""
    for key in ("containers", "initContainers"):
        now, before = spec.get(key) or [], old.get(key) or []
        if len(now) != len(before):
            yield api_errors.not_allowed(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(now):
            yield from validation.required(container.get("image"), f"spec.{key}[{index}].image")
    deadline, previous = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is not None and not 0 <= deadline < 1 << 31:
        yield from validation.in_range(deadline, 0, (1 << 31) - 1, "spec.activeDeadlineSeconds")
        return
    if deadline is not None and previous is not None and deadline > previous:
        text = "must be less than or equal to previous value"
        yield api_errors.invalid_value("spec.activeDeadlineSeconds", deadline, text)
        return
    if deadline is None and previous is not None:
        text = "must not update from a positive integer to nil value"
        yield api_errors.invalid_value("spec.activeDeadlineSeconds", None, text)
    yield from _only_added(spec.get("tolerations") or [], old.get("tolerations") or [])
    yield from _only_removed(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    munged = _with_old_mutable_fields(spec, old)
    if old.get("schedulingGates"):
        yield from _validate_gated_scheduling(munged, old)
    if _without_empty_fields(munged) != _without_empty_fields(old):
        yield api_errors.not_allowed("spec", f"{_FROZEN}\n{difference(POD_SPEC, old, munged)}")


def _only_added(now: Sequence[JsonObject], before: Sequence[JsonObject]) -> Iterator[Cause]:
    """Validate that existing tolerations only change their tolerationSeconds."""

    def bare(toleration: JsonObject) -> JsonObject:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    there = [bare(t) for t in now]
    if any(bare(t) not in there for t in before):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield api_errors.not_allowed("spec.tolerations", text)


def _only_removed(now: Sequence[JsonObject], before: Sequence[JsonObject]) -> Iterator[Cause]:
    there = {gate.get("name") for gate in before}
    for index, gate in enumerate(now):
        if gate.get("name") not in there:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield api_errors.not_allowed(f"spec.schedulingGates[{index}].name", text)


def _with_old_mutable_fields(spec: JsonObject, old: JsonObject) -> JsonObject:
    """Return a copy with the old values of mutable fields."""
    munged: JsonObject = copy_tree(spec)
    for key in ("containers", "initContainers"):
        for container, was in zip(munged.get(key) or (), old.get(key) or (), strict=True):
            container["image"] = was.get("image")
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        munged[key] = old.get(key)
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return munged


def _without_empty_fields(spec: JsonObject) -> JsonObject:
    present = {key: value for key, value in spec.items() if value not in (None, [], {})}
    for key in ("containers", "initContainers"):
        if key in present:
            present[key] = [{k: v for k, v in container.items() if v is not None} for container in present[key]]
    return present


# ------------------------------------------------------------------ scheduling gates
def _validate_gated_scheduling(spec: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate changes of a pod with scheduling gates: node selector and affinity may only become narrower."""
    now, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(now.get(key) != value for key, value in before.items()):
        yield api_errors.invalid_value("spec.nodeSelector", now or None, _SELECTOR)
    spec["nodeSelector"] = before
    affinity, was = spec.get("affinity") or {}, old.get("affinity") or {}
    yield from _narrowed_nodes(affinity.get("nodeAffinity") or {}, was.get("nodeAffinity") or {})
    preserved = {**{k: v for k, v in affinity.items() if k != "nodeAffinity"}}
    if was.get("nodeAffinity") is not None:
        preserved["nodeAffinity"] = was["nodeAffinity"]
    spec["affinity"] = preserved or None


def _narrowed_nodes(now: JsonObject, before: JsonObject) -> Iterator[Cause]:
    terms, was = ((a.get(REQUIRED) or {}).get("nodeSelectorTerms") or [] for a in (now, before))
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if not was:
        return
    if len(terms) != len(was):
        yield api_errors.invalid_value(path, [shown(_TERM_TYPE, t) for t in terms] or None, _TERMS)
        return
    for index, (term, old) in enumerate(zip(terms, was, strict=True)):
        if not all(
            _only_appended(term.get(key) or [], old.get(key) or []) for key in ("matchExpressions", "matchFields")
        ):
            yield api_errors.invalid_value(f"{path}[{index}]", shown(_TERM_TYPE, term), _TERM)


def _only_appended(now: Sequence[JsonObject], before: Sequence[JsonObject]) -> bool:
    """Whether `now` begins with `before`. An empty `before` must stay empty, because it means "all"."""
    return list(now[: len(before)]) == list(before) and (bool(before) or not now)


# ------------------------------------------------------------------ ephemeral containers
def validate_ephemeral_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: ephemeral containers may be added and are immutable."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        yield api_errors.not_allowed("[]", "static pods do not support ephemeral containers")
        return
    now = {c.get("name"): c for c in obj["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = api_errors.quoted(container.get("name", ""))
        new = now.get(container.get("name"))
        if new is None:
            text = f"existing ephemeral containers {name} may not be removed\n"
            yield api_errors.not_allowed("spec.ephemeralContainers", text)
        elif new != container:
            change = difference(f"{CORE}EphemeralContainer", container, new)
            text = f"existing ephemeral containers {name} may not be changed\n{change}"
            yield api_errors.not_allowed("spec.ephemeralContainers", text)
