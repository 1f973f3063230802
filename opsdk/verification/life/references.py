"""The objects that custom resources and pods name: they come late, change, and go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.oracles import StateDifference
from opsdk.verification.referenced_objects import referenced_tree
from opsdk.verification.workload.operations import ReferencedObject

__all__ = ["change_of", "missing_references", "stale_pods"]

_CHANGED: Final = "changed"
_KINDS: Final = ("ConfigMap", "Secret")
_POD_SPEC: Final = ("spec", "template", "spec")
_SOURCES: Final = (("secretRef", "Secret"), ("configMapRef", "ConfigMap"))
_KEY_SOURCES: Final = (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap"))


def change_of(tree: JsonObject) -> JsonObject | None:
    """Return a merge patch that changes all that an object holds; None if it holds nothing that may change.

    >>> change_of({"kind": "ConfigMap", "data": {"a": "1"}})
    {'data': {'a': 'changed', 'changed': 'changed'}}
    """
    if tree["kind"] == "ConfigMap":
        return {"data": dict.fromkeys((*tree.get("data", {}), _CHANGED), _CHANGED)}
    if tree["kind"] == "Secret":
        return {"stringData": dict.fromkeys((*tree.get("stringData", {}), _CHANGED), _CHANGED)}
    return None


def missing_references(state: RestState, known: Collection[str], namespace: str) -> Iterator[JsonObject]:
    """Yield the Secrets and ConfigMaps that the operator or its pods look for, and that nothing creates.

    Args:
        state: at rest.
        known: kind and name of the objects that are there.
        namespace: of the custom resource.
    """
    names = dict.fromkeys(sorted(state.missing))
    names |= dict.fromkeys(f"{kind} {namespace}/{name}" for kind, name, _ in _uses(state))
    for text in names:
        kind, _, key = text.partition(" ")
        place, _, name = key.rpartition("/")
        written = f"/{kind.lower()}s/{key}"
        if kind in _KINDS and text not in known and not any(each.endswith(written) for each in state.keys):
            tree = referenced_tree(ReferencedObject((), kind, name), place)
            if tree is not None:
                yield tree


def stale_pods(before: RestState, after: RestState, changed: Collection[str]) -> list[StateDifference]:
    """Return the workloads whose pods go on with the environment of an object that has changed.

    A file of a volume changes in a running pod. An environment variable, and a file of a sub-path, do not.

    Args:
        before: the state at rest before the change.
        after: the state afterwards.
        changed: kind and name of the objects that changed.
    """
    problems = []
    for kind, name, key in _uses(after):
        if f"{kind} {name}" not in changed or key not in before.objects:
            continue
        templates = [[get_path(obj, _POD_SPEC[:2], None) for obj in state.objects[key]] for state in (before, after)]
        if templates[0] == templates[1]:
            text = f"{subject_of(key)} has {kind} {name} in its environment, which has changed: "
            text += "its pods go on with the former values"
            problems.append(StateDifference(f"{key} is stale", text))
    return problems


def _uses(state: RestState) -> Iterator[tuple[str, str, str]]:
    """Yield kind and name of what pods read once, with the key of their workload."""
    for key, objects in state.objects.items():
        for obj in objects:
            spec = get_path(obj, _POD_SPEC, None)
            if isinstance(spec, dict):
                for kind, name in _read_once(spec):
                    yield kind, name, key


def _read_once(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    containers: Sequence[Any] = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    volumes = {each.get("name"): each for each in spec.get("volumes", ())}
    for container in containers:
        for source in container.get("envFrom", ()):
            yield from _named(source, _SOURCES)
        for variable in container.get("env", ()):
            yield from _named(variable.get("valueFrom") or {}, _KEY_SOURCES)
        for mount in container.get("volumeMounts", ()):
            if mount.get("subPath"):
                volume = volumes.get(mount.get("name")) or {}
                if name := (volume.get("secret") or {}).get("secretName"):
                    yield "Secret", name
                if name := (volume.get("configMap") or {}).get("name"):
                    yield "ConfigMap", name


def _named(source: Mapping[str, Any], kinds: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for field, kind in kinds:
        if isinstance(part := source.get(field), dict) and part.get("name"):
            yield kind, str(part["name"])
