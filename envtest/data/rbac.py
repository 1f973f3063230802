"""The bootstrap roles and role bindings.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from envtest.data.table import read_table
from opsdk.structured_merge.value import JsonObject, JsonValue

GROUP = "rbac.authorization.k8s.io"
VERB_SETS = {"R": "get,list,watch", "W": "create,update,patch,delete,deletecollection"}
CONTROLLER = "system:controller:"
"""The prefix of controller role names."""
_KINDS = {"group": "Group", "user": "User"}


@cache
def bootstrap_policy() -> tuple[tuple[str, JsonObject], ...]:
    """Return resource and object of each, without fields that differ between clusters; do not modify them."""
    lines = read_table("rbac").splitlines()
    return tuple(_order(list(_objects(lines))))


def _order(objects: Sequence[tuple[str, JsonObject]]) -> Iterator[tuple[str, JsonObject]]:
    for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
        yield from ((resource, _owned(obj)) for resource, obj in objects if resource == kind)


def _objects(lines: Sequence[str]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the roles and bindings of the bootstrap policy's lines."""
    rules: list[JsonObject] = []
    for line in lines:
        head, *words = line.split(" ")
        if head not in ("clusterrole", "controller", "role", "bind", "bindrole"):
            rules.append(_rule(head, words))
            continue
        rules = []
        match head:
            case "clusterrole":
                marks = dict(w.split("=") for w in words[1:])
                role = _object("ClusterRole", words[0], rules=None if "aggregates" in marks else rules)
                if "to" in marks:
                    role["metadata"]["labels"][f"{GROUP}/aggregate-to-{marks['to']}"] = "true"
                if "aggregates" in marks:
                    selector = {"matchLabels": {f"{GROUP}/aggregate-to-{marks['aggregates']}": "true"}}
                    role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
                yield "clusterroles", role
            case "controller":
                name = f"{CONTROLLER}{words[0]}"
                yield "clusterroles", _object("ClusterRole", name, rules=rules)
                yield "clusterrolebindings", _binding("", name, name, [f"sa:kube-system:{words[0]}"])
            case "role":
                yield "roles", _object("Role", words[1], words[0], rules=rules)
            case "bind":
                yield "clusterrolebindings", _binding("", words[0], words[1], words[2:])
            case _:
                yield "rolebindings", _binding(words[0], words[1], words[2], words[3:])


def _object(kind: str, name: str, namespace: str = "", **content: JsonValue) -> JsonObject:
    meta: JsonObject = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    obj: JsonObject = {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": meta, **content}
    return obj


def _owned(obj: JsonObject) -> JsonObject:
    """Add managedFields of the server; their time is filled in later."""
    fields: JsonObject = {f"f:{key}": {} for key in ("roleRef", "subjects", "rules") if obj.get(key)}
    if "aggregationRule" in obj:
        fields["f:aggregationRule"] = {".": {}, "f:clusterRoleSelectors": {}}
    meta = obj["metadata"]
    marks: JsonObject = {key: {".": {}, **{f"f:{k}": {} for k in meta[key]}} for key in ("annotations", "labels")}
    fields["f:metadata"] = {f"f:{key}": value for key, value in marks.items()}
    owner = {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": obj["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": dict(sorted(fields.items())),
    }
    return {**obj, "metadata": {**meta, "managedFields": [owner]}}


def _rule(verbs: str, words: Sequence[str]) -> JsonObject:
    rule = {"verbs": _sorted(",".join(VERB_SETS.get(v, v) for v in verbs.split(",")))}
    if words[0] == "path":
        return {**rule, "nonResourceURLs": _sorted(words[1])}
    rule["apiGroups"] = ["" if g == "core" else g for g in words[0].split(",")]
    rule["resources"] = _sorted(words[1])
    return {**rule, "resourceNames": _sorted(words[2])} if len(words) > 2 else rule


def _sorted(text: str) -> list[str]:
    return sorted(set(text.split(",")))


def _binding(namespace: str, name: str, role: str, subjects: Sequence[str]) -> JsonObject:
    kind = "Role" if namespace else "ClusterRole"
    content: JsonObject = {"subjects": [_subject(s) for s in subjects]} if subjects else {}
    content["roleRef"] = {"apiGroup": GROUP, "kind": kind, "name": role}
    return _object(f"{kind}Binding", name, namespace, **content)


def _subject(text: str) -> JsonObject:
    kind, _, name = text.partition(":")
    if kind == "sa":
        namespace, _, account = name.partition(":")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"kind": _KINDS[kind], "apiGroup": GROUP, "name": name}
