"""The base CEL environment with cost limits.

Upstream: k8s.io/apiserver/pkg/cel/environment/base.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import msgspec

from opsdk.apiserver.expressions.authorizer import AUTHORIZER_LIBRARY
from opsdk.apiserver.expressions.formats import FORMAT_LIBRARY
from opsdk.cel.declarations import Library, merged
from opsdk.cel.environment import CelEnvironment
from opsdk.cel.library.lists import KUBERNETES_LISTS, LISTS_LIBRARY, SETS_LIBRARY
from opsdk.cel.library.network import CIDR_LIBRARY, IP_LIBRARY, URL_LIBRARY
from opsdk.cel.library.optionals import OPTIONALS_LIBRARY
from opsdk.cel.library.quantities import QUANTITY_LIBRARY, SEMVER_LIBRARY
from opsdk.cel.library.standard import MIXED_COMPARISONS, STANDARD_LIBRARY
from opsdk.cel.library.strings import STRINGS_LIBRARY, STRINGS_VERSION_2
from opsdk.cel.library.texts import REGEX_LIBRARY, TWO_VARIABLES_LIBRARY

PER_CALL_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation; about a tenth of a second in Go."""

RUNTIME_BUDGET: Final = 10_000_000
"""Cost limit of all evaluations for one object."""


_LIBRARIES: Final = (
    STANDARD_LIBRARY,
    URL_LIBRARY,
    REGEX_LIBRARY,
    KUBERNETES_LISTS,
    OPTIONALS_LIBRARY,
    QUANTITY_LIBRARY,
    STRINGS_LIBRARY,
    SETS_LIBRARY,
    IP_LIBRARY,
    CIDR_LIBRARY,
    FORMAT_LIBRARY,
    TWO_VARIABLES_LIBRARY,
    SEMVER_LIBRARY,
    LISTS_LIBRARY,
    AUTHORIZER_LIBRARY,
)


class ExpressionFeature(msgspec.Struct, frozen=True):
    """Functions and macros that older API servers lack.

    Attributes:
        name: in messages.
        minor: the first minor version of Kubernetes that accepts them in new objects.
        library: the functions and macros.
    """

    name: str
    minor: int
    library: Library


FEATURES: Final = (
    ExpressionFeature("comparisons of numbers of different types", 29, MIXED_COMPARISONS),
    ExpressionFeature("optional values", 29, OPTIONALS_LIBRARY),
    ExpressionFeature("the quantity library", 29, QUANTITY_LIBRARY),
    ExpressionFeature("version 2 of the strings library", 30, STRINGS_VERSION_2),
    ExpressionFeature("the sets library", 30, SETS_LIBRARY),
    ExpressionFeature("the IP address library", 31, IP_LIBRARY),
    ExpressionFeature("the CIDR library", 31, CIDR_LIBRARY),
    ExpressionFeature("the format library", 32, FORMAT_LIBRARY),
    ExpressionFeature("comprehensions with two variables", 33, TWO_VARIABLES_LIBRARY),
    ExpressionFeature("the semver library", 34, SEMVER_LIBRARY),
    ExpressionFeature("the lists library", 35, LISTS_LIBRARY),
)
"""What was added after 1.25, the first version with rules by default.

base.go has the release that introduced each of them. A server accepts in new objects only what the release before it
has too, so that the objects survive a downgrade: the versions here are one higher.
"""


@cache
def kubernetes_environment() -> CelEnvironment:
    """Return the environment of Kubernetes 1.36 libraries, without variables."""
    return CelEnvironment(_LIBRARIES)


def environment_without(features: Iterable[ExpressionFeature]) -> CelEnvironment:
    """Return the environment of a server that lacks some features."""
    omitted = merged(feature.library for feature in features)
    ids = {overload.id for overloads in omitted.functions.values() for overload in overloads}
    full = merged(_LIBRARIES)
    functions = {
        name: kept
        for name, overloads in full.functions.items()
        if (kept := [overload for overload in overloads if overload.id not in ids])
    }
    macros = {key: macro for key, macro in full.macros.items() if key not in omitted.macros}
    return CelEnvironment([Library(functions=functions, macros=macros, types=full.types)])
