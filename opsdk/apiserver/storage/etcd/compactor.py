"""Compaction of etcd's history at an interval.

All replicas, and kube-apiservers on the same etcd, coordinate through one key: the first one that writes it in an
interval compacts. Each round compacts up to the revision of the last round, so watches have at least one interval.

Upstream: k8s.io/apiserver/pkg/storage/etcd3/compact.go (v1.36).
"""

from __future__ import annotations

import asyncio
import logging

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure

log = logging.getLogger(__name__)

COMPACT_REV_KEY = b"compact_rev_key"
"""The key of kube-apiserver. Its version counts the rounds."""


class EtcdCompactor(Closing):
    """Compacts every `interval` seconds, unless another process has compacted."""

    def __init__(self, client: EtcdClient, *, interval: float) -> None:
        self._client = client
        self._interval = interval
        self._tasks = TaskOwner("etcd-compactor")
        self._round = 0
        self._revision = 0

    def __repr__(self) -> str:
        return f"<EtcdCompactor after round {self._round} at {self._revision}>"

    def start(self) -> None:
        """Start; the first compaction is after two intervals."""
        self._tasks.start(self._run(), name="run")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.compact()
            except EtcdError as error:
                log.warning("etcd was not compacted, the next attempt is in %g s: %s", self._interval, error)

    async def compact(self) -> int:
        """Run one round. Return the compacted revision, or 0 if another process has compacted."""
        key = messages.RequestOp(request_put=messages.PutRequest(key=COMPACT_REV_KEY, value=b"%d" % self._revision))
        compare = messages.Compare(
            result=messages.COMPARE_EQUAL, target=messages.COMPARE_VERSION, key=COMPACT_REV_KEY, version=self._round
        )
        read = messages.RequestOp(request_range=messages.RangeRequest(key=COMPACT_REV_KEY))
        request = messages.TxnRequest(compare=[compare], success=[key], failure=[read])
        # If the response is lost, the retry only loses the round to another process.
        response, _ = await self._client.request(Rpc.TXN, request)
        revision, self._revision = self._revision, response.header.revision
        if not response.succeeded:
            self._round = response.responses[0].response_range.kvs[0].version
            return 0
        self._round += 1
        if not revision:
            return 0
        try:
            await self._client.request(Rpc.COMPACT, messages.CompactionRequest(revision=revision))
        except EtcdError as error:
            if error.failure is not EtcdFailure.COMPACTED:
                raise
            return 0
        log.debug("compacted etcd up to revision %d", revision)
        return revision

    async def aclose(self) -> None:
        """Stop and cancel a running round. Idempotent."""
        await self._tasks.aclose()
