"""What expressions of admission may refer to: the object, the old one, the request, the authorizer."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from opsdk.apiserver.expressions.authorizer import AUTHORIZER, RESOURCE_CHECK
from opsdk.apiserver.expressions.kubernetes import kubernetes_environment
from opsdk.apiserver.storage.ports import Tree
from opsdk.cel.environment import Environment, Program
from opsdk.cel.types import BOOL, DYN, STRING, Kind, list_of, map_of, object_of
from opsdk.errors import CelCompileError

_KIND: Final = object_of("kubernetes.GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = object_of(
    "kubernetes.GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING}
)
_USER: Final = object_of(
    "kubernetes.UserInfo",
    {"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))},
)
REQUEST: Final = object_of(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
MATCH_BUDGET: Final = 2_500_000
"""What all match conditions of one webhook or policy may cost."""


@cache
def admission_environment() -> Environment:
    """All libraries and variables but parameters and a policy's own variables."""
    variables = {"object": DYN, "oldObject": DYN, "namespaceObject": DYN, "request": REQUEST}
    return kubernetes_environment().extend(
        variables={**variables, "authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK},
        types={type_.name: type_ for type_ in (_KIND, _RESOURCE, _USER, REQUEST)},
    )


@cache
def compile_condition(expression: str) -> Program | str:
    """The program of a condition, or what is wrong with it."""
    try:
        program = admission_environment().compile(expression)
    except CelCompileError as error:
        return f"compilation failed: {error}"
    if program.type.kind not in (Kind.BOOL, Kind.DYN):
        return "must evaluate to bool"
    return program


def request_variable(request: Tree) -> dict[str, Any]:
    """``request``, from the request of an AdmissionReview."""
    return {key: value for key, value in request.items() if key not in ("uid", "object", "oldObject")}
