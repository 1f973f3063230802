"""Calls of systems outside of Kubernetes, which a recording keeps and a replay answers.

A replay has no DNS service and no cloud. Wrap the client of such a system, and its results are recorded::

    dns = record_calls(HttpDns(), name="dns")

External resources (`opsdk.controller.external`) are recorded without that.
"""

from __future__ import annotations

import inspect
from typing import Any, Generic, TypeVar, cast

from opsdk.errors import UsageError
from opsdk.recording.boundary import BOUNDARY, ExternalCall, Method

__all__ = ["record_calls"]

S = TypeVar("S")


async def call_method(name: str, method: Method, *arguments: Any, **keywords: Any) -> Any:
    """Call an async method of a system outside of Kubernetes; a recording keeps its result.

    Args:
        name: of the system and the method, such as ``dns.create``.
        method: to call.
        arguments: of the method.
        keywords: of the method.
    """
    boundary = BOUNDARY.get()
    if boundary is None:
        return await method(*arguments, **keywords)
    return await boundary.call(ExternalCall(name=name, method=method, arguments=arguments, keywords=keywords))


def record_calls(system: S, *, name: str) -> S:
    """Return an object with the methods of `system`. A recording keeps the results of the async ones.

    A replay returns these results without a call. So a result has to be a value that msgspec encodes, and the method
    needs its type as an annotation: a number, a text, a list, a dict, a dataclass, a `msgspec.Struct`. A recording may
    show the results: leave out methods that return passwords.

    Args:
        system: such as the client of a DNS service.
        name: of the system in recordings; another one for each system.

    Raises:
        UsageError: the name is empty.

    >>> class Dns:
    ...     url = "https://dns.example.com"
    ...     async def create(self, host: str) -> str: ...
    >>> record_calls(Dns(), name="dns").url
    'https://dns.example.com'
    """
    if not name:
        raise UsageError('record_calls needs a name, such as record_calls(client, name="dns")')
    return cast("S", _RecordedSystem(system, name))


class _RecordedSystem(Generic[S]):
    def __init__(self, system: S, name: str) -> None:
        self._system, self._name = system, name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._system, attribute)
        if not inspect.iscoroutinefunction(value):
            return value
        name = f"{self._name}.{attribute}"

        async def recorded(*arguments: Any, **keywords: Any) -> Any:
            return await call_method(name, value, *arguments, **keywords)

        return recorded

    def __repr__(self) -> str:
        return f"<recorded {self._system!r}>"
