"""Imports of libraries that optional extras install."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final

from opsdk.errors import ConfigError

EXTRA_MODULES: Final[Mapping[str, frozenset[str]]] = {
    "apiserver": frozenset({"cryptography", "jwt", "re2", "websockets"}),
    "cli": frozenset({"click", "rich", "textual", "typer", "watchfiles", "websockets"}),
    "cron": frozenset({"cronsim", "tzdata"}),
    "envtest": frozenset({"cryptography", "jwt", "re2", "websockets"}),
    "etcd": frozenset({"google", "grpc"}),
    "migrate": frozenset({"libcst"}),
    "norman": frozenset({"jinja2", "websockets"}),
    "otel": frozenset({"opentelemetry"}),
    "pods": frozenset({"websockets"}),
    "pydantic": frozenset({"pydantic"}),
    "socks": frozenset({"python_socks"}),
    "tls": frozenset({"cryptography"}),
}
"""The top-level modules that the extras install."""


class RequiredExtra:
    """Turns a failed import of an extra's library inside a ``with`` block into a `ConfigError` with what to install.

    Other errors pass, such as a failed import of a user's module.

    >>> with RequiredExtra("etcd", "the storage on etcd"):
    ...     raise ModuleNotFoundError(name="grpc")
    Traceback (most recent call last):
    opsdk.errors.ConfigError: the storage on etcd needs grpc: pip install 'opsdk[etcd]'

    Args:
        extra: a key of `EXTRA_MODULES`.
        feature: what needs the extra, in the singular; the subject of the message.
        alternative: what to do instead, as an infinitive without "to".
    """

    def __init__(self, extra: str, feature: str, *, alternative: str = "") -> None:
        self._extra = extra
        self._feature = feature
        self._alternative = alternative

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ModuleNotFoundError) or error.name is None:
            return
        if error.name.partition(".")[0] in EXTRA_MODULES[self._extra]:
            alternative = f", or {self._alternative}" if self._alternative else ""
            text = f"{self._feature} needs {error.name}: pip install 'opsdk[{self._extra}]'{alternative}"
            raise ConfigError(text) from error
