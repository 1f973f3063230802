"""The base CEL environment with cost limits.

Upstream: k8s.io/apiserver/pkg/cel/environment/base.go (v1.36).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from opsdk.apiserver.expressions.authorizer import AUTHORIZER_LIBRARY
from opsdk.apiserver.expressions.formats import FORMAT_LIBRARY
from opsdk.cel.environment import CelEnvironment
from opsdk.cel.library.lists import KUBERNETES_LISTS, LISTS_LIBRARY, SETS_LIBRARY
from opsdk.cel.library.network import CIDR_LIBRARY, IP_LIBRARY, URL_LIBRARY
from opsdk.cel.library.optionals import OPTIONALS_LIBRARY
from opsdk.cel.library.quantities import QUANTITY_LIBRARY, SEMVER_LIBRARY
from opsdk.cel.library.standard import STANDARD_LIBRARY
from opsdk.cel.library.strings import STRINGS_LIBRARY
from opsdk.cel.library.texts import REGEX_LIBRARY, TWO_VARIABLES_LIBRARY

PER_CALL_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation; about a tenth of a second in Go."""

RUNTIME_BUDGET: Final = 10_000_000
"""Cost limit of all evaluations for one object."""


@cache
def kubernetes_environment() -> CelEnvironment:
    """Return the environment of Kubernetes 1.36 libraries, without variables."""
    return CelEnvironment(
        [
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
        ]
    )
