"""One etcd for the tests of a process; each test has a prefix of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from etcd_cluster import BINARY, EtcdCluster


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """A cluster of one member."""
    if BINARY is None:
        pytest.skip("etcd is not installed: apt-get install etcd-server")
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster
