"""The error of a missing extra."""

from __future__ import annotations

from opsdk.errors import ConfigError


def missing_extra(error: ModuleNotFoundError) -> ConfigError:
    """Return the error of a missing library of the extra ``etcd``.

    >>> str(missing_extra(ModuleNotFoundError("no module", name="grpc")))
    "the storage on etcd needs grpc: pip install 'opsdk[etcd]'"
    """
    return ConfigError(f"the storage on etcd needs {error.name}: pip install 'opsdk[etcd]'")
