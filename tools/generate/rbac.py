"""``rbac.txt``: the RBAC objects that every cluster starts with. Pure.

A line for each object. The rules of a role stand below it, as ``verbs groups resources [names]`` or
``verbs path paths``::

    clusterrole NAME [aggregates=LABEL] [to=LABEL]
    controller NAME                            ClusterRole system:controller:NAME, bound to its service account
    role NAMESPACE NAME
    bind NAME CLUSTERROLE [SUBJECT ...]
    bindrole NAMESPACE NAME ROLE [SUBJECT ...]

``R`` is get,list,watch. ``W`` is create,update,patch,delete,deletecollection. ``core`` is the group without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envtest.data.rbac import CONTROLLER, GROUP, VERB_SETS
from tools.generate.policy_facts import PolicyObject

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = f"{GROUP}/aggregate-to-"


def render_rbac(objects: Sequence[PolicyObject]) -> str:
    """The objects in their order; the binding of a controller's role has no line of its own."""
    bound = {name for item in objects if (name := _controller_of(item))}
    lines: list[str] = []
    for item in objects:
        metadata = item["metadata"]
        labels = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith(_AGGREGATE)}
        if labels != _LABELS or metadata.get("annotations") != _ANNOTATIONS:
            raise ValueError(
                f"{item['kind']} {metadata['name']} has labels or annotations that rbac.txt cannot express"
            )
        if not (_controller_of(item) in bound and item["kind"] == "ClusterRoleBinding"):
            lines += _object_lines(item, bound)
    return "".join(f"{line}\n" for line in lines)


def _controller_of(item: PolicyObject) -> str:
    """The controller whose service account alone is bound to the role of the same name; empty for other objects."""
    name = str(item["metadata"]["name"])
    controller = name.removeprefix(CONTROLLER)
    subject = {"kind": "ServiceAccount", "name": controller, "namespace": "kube-system"}
    is_pair = item["kind"] == "ClusterRoleBinding" and name != controller and item["roleRef"]["name"] == name
    return controller if is_pair and item.get("subjects") == [subject] else ""


def _object_lines(item: PolicyObject, bound: set[str]) -> Iterator[str]:
    metadata = item["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    match item["kind"]:
        case "ClusterRole" if name.startswith(CONTROLLER) and name.removeprefix(CONTROLLER) in bound:
            yield f"controller {name.removeprefix(CONTROLLER)}"
        case "ClusterRole":
            yield " ".join(("clusterrole", name, *_aggregation(item)))
        case "Role":
            yield f"role {namespace} {name}"
        case "ClusterRoleBinding":
            yield " ".join(("bind", name, item["roleRef"]["name"], *_subjects(item)))
        case _:
            yield " ".join(("bindrole", namespace, name, item["roleRef"]["name"], *_subjects(item)))
    yield from (_rule(rule) for rule in item.get("rules") or ())


def _aggregation(item: PolicyObject) -> Iterator[str]:
    for selector in item.get("aggregationRule", {}).get("clusterRoleSelectors", ()):
        yield from (f"aggregates={label.removeprefix(_AGGREGATE)}" for label in selector["matchLabels"])
    labels = item["metadata"]["labels"]
    yield from (f"to={label.removeprefix(_AGGREGATE)}" for label in labels if label.startswith(_AGGREGATE))


def _subjects(item: PolicyObject) -> Iterator[str]:
    for subject in item.get("subjects", ()):
        if subject["kind"] == "ServiceAccount":
            yield f"sa:{subject['namespace']}:{subject['name']}"
        else:
            yield f"{subject['kind'].lower()}:{subject['name']}"


def _rule(rule: Mapping[str, Any]) -> str:
    verbs = _short(rule["verbs"])
    if "nonResourceURLs" in rule:
        return f"{verbs} path {','.join(rule['nonResourceURLs'])}"
    words = [verbs, ",".join(group or "core" for group in rule["apiGroups"]), ",".join(rule["resources"])]
    return " ".join((*words, *([",".join(rule["resourceNames"])] if "resourceNames" in rule else [])))


def _short(verbs: Iterable[str]) -> str:
    """The verbs, with a letter for each whole set.

    >>> _short(["create", "get", "list", "watch"])
    'R,create'
    """
    left, letters = set(verbs), []
    for letter, names in VERB_SETS.items():
        if left >= (whole := set(names.split(","))):
            letters.append(letter)
            left -= whole
    return ",".join((*letters, *sorted(left)))
