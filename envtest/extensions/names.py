"""Check for name conflicts between CRDs, and set the NamesAccepted condition. Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opsdk.structured_merge.value import JsonObject

_LISTS = ("shortNames", "categories")


def _accepted_names(others: Iterable[JsonObject]) -> tuple[set[str], set[str]]:
    """Return the accepted resource names and the accepted kind names."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {n for n in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if n}
        kinds |= {n for n in (names.get("kind"), names.get("listKind")) if n}
    return resources, kinds


def _conflicts(names: JsonObject, resources: set[str], kinds: set[str]) -> Iterator[tuple[str, str, str]]:
    """Return field, reason and name of each conflict."""
    for field, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        if names.get(field) in used:
            yield field, reason, names[field]
    for short in names.get("shortNames") or ():
        if short in resources:
            yield "shortNames", "ShortNamesConflict", short


def condition(kind: str, status: str, reason: str, message: str, now: str) -> JsonObject:
    """Return a condition."""
    return {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}


def put_condition(conditions: list[JsonObject], new: JsonObject) -> list[JsonObject]:
    """Return the conditions with `new` set; an unchanged status keeps its transition time."""
    result, done = [], False
    for old in conditions:
        if old["type"] != new["type"]:
            result.append(old)
            continue
        done = True
        same = old["status"] == new["status"]
        result.append({**new, "lastTransitionTime": old["lastTransitionTime"]} if same else new)
    return result if done else [*result, new]


_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
"""The field order of the Go type."""


def naming_status(definition: JsonObject, others: Iterable[JsonObject], now: str) -> JsonObject:
    """Compute the status of a CRD from its names and from the names of the other CRDs of the group."""
    spec_names = definition["spec"]["names"]
    status = dict(definition.get("status") or {})
    resources, kinds = _accepted_names(others)
    conflicts = list(_conflicts(spec_names, resources, kinds))
    taken = {field for field, _, _ in conflicts}
    names = {"plural": "", "kind": "", **(status.get("acceptedNames") or {})}
    for key in _LISTS:
        names.pop(key, None)
    names |= {k: v for k, v in spec_names.items() if k not in taken and (v or k in names)}
    names = {key: names[key] for key in _ORDER if key in names}
    conditions = list(status.get("conditions") or [])
    if conflicts:
        _, reason, name = conflicts[-1]
        names_accepted = condition("NamesAccepted", "False", reason, f'"{name}" is already in use', now)
        established = condition("Established", "False", "NotAccepted", "not all names are accepted", now)
    else:
        names_accepted = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        text = "the initial names have been accepted"
        established = condition("Established", "True", "InitialNamesAccepted", text, now)
    before = next((c for c in conditions if c["type"] == "Established"), None)
    conditions = put_condition(conditions, names_accepted)
    if before is None or before["status"] != "True":
        conditions = put_condition(conditions, established)
    conditions = _approval(definition, conditions, now)
    return {**status, "acceptedNames": names, "conditions": conditions}


APPROVAL = "api-approved.kubernetes.io"
"""The annotation that definitions in protected groups need."""


def is_protected_group(group: str) -> bool:
    """Return whether a group is reserved for Kubernetes (``*.k8s.io``, ``*.kubernetes.io``)."""
    return any(group == g or group.endswith(f".{g}") for g in ("k8s.io", "kubernetes.io"))


def _approval(definition: JsonObject, conditions: list[JsonObject], now: str) -> list[JsonObject]:
    if not is_protected_group(definition["spec"]["group"]):
        return conditions
    kind, annotations = "KubernetesAPIApprovalPolicyConformant", definition["metadata"].get("annotations") or {}
    value = annotations.get(APPROVAL, "")
    if value.startswith("unapproved"):
        text = f'not approved: "{value}"'
        return put_condition(conditions, condition(kind, "False", "UnapprovedAnnotation", text, now))
    text = f"approved in {value}"
    return put_condition(conditions, condition(kind, "True", "ApprovedAnnotation", text, now))


def is_true(definition: JsonObject, kind: str) -> bool:
    """Return whether a condition is True."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)
