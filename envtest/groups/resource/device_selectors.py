"""CEL device selectors: their environment and validation.

Upstream: k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36)
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from opsdk.apiserver.expressions.admission import compile_typed, runtime_text
from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.cel.environment import CelEnvironment
from opsdk.cel.library.quantities import QUANTITY
from opsdk.cel.types import BOOL, DYN, STRING, map_of, object_of

_TYPE: Final = "kubernetes.DRADevice"


@cache
def _environment() -> CelEnvironment:
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        "allowMultipleAllocations": BOOL,
    }
    device = object_of(_TYPE, fields)
    return kubernetes_environment().extend(variables={"device": device}, types={_TYPE: device})


@lru_cache(maxsize=1024)
def selector_problem(expression: str) -> str:
    """Return why a CEL device selector does not compile; empty if it does.

    >>> selector_problem("1")
    'must evaluate to bool or the unknown type, not int'
    """
    compiled = compile_typed(_environment(), expression, ())
    if isinstance(compiled, str):
        return compiled
    if compiled.type in (BOOL, DYN):
        return ""
    return f"must evaluate to bool or the unknown type, not {runtime_text(compiled.type)}"
