"""Compiles CEL expressions over ``self``, a live object. Pure.

The functions are those of validation rules in CustomResourceDefinitions, without formats, addresses and URLs.

Upstream: k8s.io/apiserver/pkg/cel/environment/base.go (v1.36)
"""

from __future__ import annotations

from functools import cache, lru_cache

from opsdk.cel.environment import CelEnvironment, Program
from opsdk.cel.library.lists import KUBERNETES_LISTS, LISTS_LIBRARY, SETS_LIBRARY
from opsdk.cel.library.optionals import OPTIONALS_LIBRARY
from opsdk.cel.library.quantities import QUANTITY_LIBRARY, SEMVER_LIBRARY
from opsdk.cel.library.standard import STANDARD_LIBRARY
from opsdk.cel.library.strings import STRINGS_LIBRARY
from opsdk.cel.library.texts import REGEX_LIBRARY, TWO_VARIABLES_LIBRARY
from opsdk.cel.types import BOOL, DYN, Type
from opsdk.errors import UsageError


@cache
def _environment() -> CelEnvironment:
    libraries = [
        STANDARD_LIBRARY,
        STRINGS_LIBRARY,
        LISTS_LIBRARY,
        KUBERNETES_LISTS,
        SETS_LIBRARY,
        OPTIONALS_LIBRARY,
        QUANTITY_LIBRARY,
        SEMVER_LIBRARY,
        REGEX_LIBRARY,
        TWO_VARIABLES_LIBRARY,
    ]
    return CelEnvironment(libraries, variables={"self": DYN})


@lru_cache(maxsize=256)
def compile_ready(expression: str) -> Program:
    """Return the program of an expression.

    Raises:
        CelCompileError: it does not compile; the message has the position.
        UsageError: it has no bool.
    """
    return _environment().compile(expression, _accept_bool)


def _accept_bool(result: Type) -> None:
    if result not in (BOOL, DYN):
        raise UsageError(f"its type is {result}")
