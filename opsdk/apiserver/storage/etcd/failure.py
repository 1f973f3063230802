"""Why etcd does not serve the storage: the errors of its requests, and what readiness says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure, api_error, state_of

_KNOWN_SECONDS: Final = 30.0
"""Seconds for which a failure counts. Without requests, nothing else shows that etcd has recovered."""
_READS: Final = frozenset({"get", "list", "watch"})


class LastFailure:
    """The state of etcd as the last requests found it.

    A full database fails writes only, so only a write ends that state.
    """

    def __init__(self) -> None:
        self._text = ""
        self._fails_reads = False
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<LastFailure {self.text or 'none'}>"

    @property
    def text(self) -> str:
        """Why etcd does not serve requests; empty after one that it served, and some time after the failure."""
        return self._text if monotonic() < self._until else ""

    @contextmanager
    def translated(self, verb: str, key: str) -> Iterator[None]:
        """Note the outcome of a request. Raises the `ApiError` of its `EtcdError`."""
        try:
            yield
        except EtcdError as error:
            if text := state_of(error):
                self._text, self._until = text, monotonic() + _KNOWN_SECONDS
                self._fails_reads = error.failure is not EtcdFailure.FULL
            raise api_error(error, verb, key) from error
        if self._fails_reads or verb not in _READS:
            self._text = ""
