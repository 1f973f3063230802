"""Requests to members that reject, fail or hang: retries, and unknown outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import grpc.aio
import pytest

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Repeat, Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.etcd.options import EtcdOptions

pytestmark = pytest.mark.realtime
Code = grpc.StatusCode
NO_LEADER = (Code.UNAVAILABLE, "etcdserver: no leader")
CHANGED = (Code.UNAVAILABLE, "etcdserver: leader changed")
FULL = (Code.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
EXPIRED = (Code.UNAUTHENTICATED, "etcdserver: invalid auth token")
HANGS = None


class FakeMember:
    """A member that fails as its script says, one entry for each request, and then answers.

    Attributes:
        requests: the names of the methods that were called.
        quiet: whether watches stay open without events; else they end.
    """

    def __init__(self, *script: tuple[grpc.StatusCode, str] | None) -> None:
        self.script = list(script)
        self.requests: list[str] = []
        self.quiet = False
        self.tokens: list[str] = []
        self._server = grpc.aio.server()
        for rpc in Rpc:
            service, method = rpc.value[0].strip("/").split("/")
            handler = self._stream(rpc) if rpc is Rpc.WATCH else self._unary(rpc, method)
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _unary(self, rpc: Rpc, name: str) -> Any:
        async def answer(_: Any, context: Any) -> Any:
            self.requests.append(name)
            if rpc is Rpc.AUTHENTICATE:
                return messages.AuthenticateResponse(token=f"token-{len(self.requests)}")
            self.tokens.extend(value for key, value in context.invocation_metadata() if key == "token")
            await self._follow_script(context)
            return rpc.value[2]()

        _, request, response = rpc.value
        return grpc.unary_unary_rpc_method_handler(answer, request.FromString, response.SerializeToString)

    def _stream(self, rpc: Rpc) -> Any:
        async def answer(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            # As etcd does: a call that ends before its request is written has no responses for the client.
            await anext(requests)
            self.requests.append("Watch")
            await self._follow_script(context)
            yield messages.WatchResponse(created=True)
            if self.quiet:
                await asyncio.Event().wait()

        _, request, response = rpc.value
        return grpc.stream_stream_rpc_method_handler(answer, request.FromString, response.SerializeToString)

    async def _follow_script(self, context: Any) -> None:
        if not self.script:
            return
        step = self.script.pop(0)
        if step is HANGS:
            await asyncio.Event().wait()
        else:
            await context.abort(*step)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


@asynccontextmanager
async def client_of(*members: FakeMember, **options: Any) -> AsyncIterator[EtcdClient]:
    """A client of members that have started."""
    # Only a member that hangs must run into the timeout; on a busy machine others take a second too.
    hangs = any(step is HANGS for member in members for step in member.script)
    fields = {"request_timeout": 1.0 if hangs else 60.0, "retry_timeout": 20.0, **options}
    others = asyncio.all_tasks()
    async with AsyncExitStack() as stack:
        for member in members:
            await stack.enter_async_context(member)
        settings = EtcdOptions(endpoints=tuple(member.url for member in members), **fields)
        yield await stack.enter_async_context(EtcdClient(settings))
    # The tasks of grpcio's servers end a little later.
    if tasks := asyncio.all_tasks() - others:
        await asyncio.wait(tasks, timeout=10)


@pytest.mark.parametrize("failure", [NO_LEADER, CHANGED, HANGS], ids=["no leader", "leader changed", "hangs"])
async def test_a_read_goes_to_the_next_member(failure: tuple[grpc.StatusCode, str] | None) -> None:
    """After a member fails, the client uses the next one, and keeps it."""
    first, second = FakeMember(failure), FakeMember()
    async with client_of(first, second) as client:
        for _ in range(2):
            assert (await client.request(Rpc.RANGE, messages.RangeRequest()))[1] is False
    assert (first.requests, second.requests) == (["Range"], ["Range", "Range"])


@pytest.mark.parametrize("failure", [CHANGED, HANGS], ids=["leader changed", "hangs"])
async def test_an_unknown_outcome_is_reported(failure: tuple[grpc.StatusCode, str] | None) -> None:
    """A compared write is sent again and marked as uncertain; another write raises, and says that it may be done."""
    first, second = FakeMember(failure), FakeMember()
    async with client_of(first, second) as client:
        assert (await client.request(Rpc.TXN, messages.TxnRequest(), Repeat.COMPARED))[1] is True
    first, second = FakeMember(failure), FakeMember()
    async with client_of(first, second) as client:
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.TXN, messages.TxnRequest(), Repeat.NEVER)
    assert (caught.value.failure, caught.value.done, second.requests) == (EtcdFailure.UNKNOWN, True, [])


async def test_a_write_that_was_refused_is_sent_again() -> None:
    """A member without a leader has done nothing, so even a write that must not happen twice is repeated."""
    first, second = FakeMember(NO_LEADER), FakeMember()
    async with client_of(first, second) as client:
        assert (await client.request(Rpc.TXN, messages.TxnRequest(), Repeat.NEVER))[1] is False
    assert second.requests == ["Txn"]


async def test_an_answer_of_etcd_is_final() -> None:
    """An error that each member would repeat is raised at once, and the member stays in use."""
    first, second = FakeMember(FULL), FakeMember()
    async with client_of(first, second) as client:
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.TXN, messages.TxnRequest(), Repeat.COMPARED)
        assert (caught.value.failure, caught.value.done) == (EtcdFailure.FULL, False)
        assert client.endpoint == first.url
    assert second.requests == []


@pytest.mark.parametrize("repeat", [Repeat.READ, Repeat.COMPARED])
async def test_attempts_end_with_the_time_for_retries(repeat: Repeat) -> None:
    """The last error is raised; for a write it says that an earlier attempt may have been carried out."""
    members = [FakeMember(*[CHANGED, NO_LEADER] * 50) for _ in range(2)]
    async with client_of(*members, retry_timeout=1.0) as client:
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.TXN, messages.TxnRequest(), repeat)
    assert caught.value.done is (repeat is Repeat.COMPARED)
    assert all(len(member.requests) > 1 for member in members)


async def test_an_expired_token_is_renewed_once() -> None:
    """The user authenticates again, and the request is repeated with the new token; a second refusal is final."""
    member = FakeMember(EXPIRED)
    async with client_of(member, user="root", password="secret") as client:
        await client.request(Rpc.RANGE, messages.RangeRequest())
        assert member.requests == ["Authenticate", "Range", "Authenticate", "Range"]
        assert member.tokens == ["token-1", "token-3"]
        member.script = [EXPIRED, EXPIRED]
        with pytest.raises(EtcdError) as caught:
            await client.request(Rpc.RANGE, messages.RangeRequest())
    assert caught.value.failure is EtcdFailure.TOKEN


@pytest.mark.parametrize(
    ("script", "responses"),
    [([NO_LEADER], 0), ([HANGS], 0), ([], 1)],
    ids=["refused", "hangs", "ended by the member"],
)
async def test_a_watch_that_ends_moves_to_the_next_member(script: list[Any], responses: int) -> None:
    """However a watch ends, its reader gets an `EtcdError`, and the next watch goes to the next member."""
    first, second = FakeMember(*script), FakeMember()
    async with client_of(first, second) as client:
        members = []

        async def read() -> None:
            async with client.watch(messages.WatchCreateRequest()) as stream:
                async for response in stream:
                    members.append(response.created)  # noqa: PERF401 - what was read before the error counts

        with pytest.raises(EtcdError):
            await read()
        assert members == [True] * responses
        assert client.endpoint == second.url


async def test_a_request_that_times_out_takes_the_watches_along() -> None:
    """A member that hangs keeps its watches silent; they end when a request to it times out."""
    first, second = FakeMember(), FakeMember()
    first.quiet = True
    async with (
        client_of(first, second, request_timeout=1.0) as client,
        client.watch(messages.WatchCreateRequest()) as stream,
    ):
        await anext(stream)
        first.script = [HANGS]
        reading = asyncio.ensure_future(anext(stream))
        await client.request(Rpc.RANGE, messages.RangeRequest())
        with pytest.raises(EtcdError, match="does not answer"):
            await reading
        assert client.endpoint == second.url
