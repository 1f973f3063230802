"""CEL device selectors: their environment and validation.

Upstream: k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36)
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from opsdk.loading import on_first_use

with on_first_use:
    from opsdk.apiserver.expressions import environment as cel_environments
    from opsdk.cel import environment as programs
    from opsdk.cel import types as cel_types
    from opsdk.cel.library import quantities as cel_quantities


_TYPE: Final = "kubernetes.DRADevice"


@cache
def _environment() -> programs.CelEnvironment:
    fields = {
        "driver": cel_types.STRING,
        "attributes": cel_types.map_of(cel_types.STRING, cel_types.map_of(cel_types.STRING, cel_types.DYN)),
        "capacity": cel_types.map_of(cel_types.STRING, cel_types.map_of(cel_types.STRING, cel_quantities.QUANTITY)),
        "allowMultipleAllocations": cel_types.BOOL,
    }
    device = cel_types.object_of(_TYPE, fields)
    return cel_environments.kubernetes_environment().extend(variables={"device": device}, types={_TYPE: device})


@lru_cache(maxsize=1024)
def selector_problem(expression: str) -> str:
    """Return why a CEL device selector does not compile; empty if it does.

    >>> selector_problem("1")
    'must evaluate to bool or the unknown type, not int'
    """
    from opsdk.apiserver.expressions.admission import compile_typed, runtime_text  # noqa: PLC0415 - few servers use DRA

    compiled = compile_typed(_environment(), expression, ())
    if isinstance(compiled, str):
        return compiled
    if compiled.type in (cel_types.BOOL, cel_types.DYN):
        return ""
    return f"must evaluate to bool or the unknown type, not {runtime_text(compiled.type)}"
