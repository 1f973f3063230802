"""One WebSocket of a subscription. The ``websockets`` library speaks the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import msgspec

from opsdk.base.extras import RequiredExtra
from opsdk.errors import CodecError, ConnectionLostError
from opsdk.norman.errors import NormanError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.tls import TlsContexts
from opsdk.structured_merge.value import JsonObject

_MAX_FRAME_BYTES = 8 << 20
# The server pings every 5 s; after three missing pings, the connection is dead.
_SILENCE_SECONDS = 15.0


class SubscribeEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A change.

    Attributes:
        name: ``resource.change``, ``resource.remove`` or ``resync``.
        resource_type: the type.
        data: the object; after a removal its last state.
        revision: the value of ``since`` that resumes after this event.
    """

    name: str
    resource_type: str = ""
    data: JsonObject = msgspec.field(default_factory=dict)
    revision: str = ""


async def frames(
    config: RestConfig, request: RestRequest, headers: Mapping[str, str]
) -> AsyncGenerator[SubscribeEvent]:
    """Connect, and yield events until the connection ends. `headers` hold the credentials.

    Raises:
        NormanError: the server rejects the subscription.
        ConnectionLostError: the connection cannot be opened, or is lost.
        CodecError: a frame is not a Norman event.
    """
    import asyncio  # noqa: PLC0415 - with the library below

    with RequiredExtra("norman", "a subscription"):
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

    endpoint = config.endpoint
    secure = endpoint.scheme == "https"
    url = f"{'wss' if secure else 'ws'}://{endpoint.authority}{endpoint.base_path}{request.target}"
    context = TlsContexts(config, on_change=lambda: None).context() if secure else None
    try:
        async with connect(url, additional_headers=headers, ssl=context, max_size=_MAX_FRAME_BYTES) as socket:
            while True:
                event = _decode(await asyncio.wait_for(socket.recv(), _SILENCE_SECONDS))
                if event.name != "ping":
                    yield event
    except InvalidStatus as error:
        status = error.response.status_code
        if status < 500:
            raise NormanError("the server rejected the subscription", status=status, code="Unknown") from error
        raise ConnectionLostError(f"the server responded with status {status}") from error
    except (ConnectionClosed, WebSocketException, OSError, TimeoutError) as error:
        raise ConnectionLostError(f"the subscription ended: {error}") from error


def _decode(message: str | bytes) -> SubscribeEvent:
    try:
        return msgspec.json.decode(message, type=SubscribeEvent)
    except msgspec.DecodeError as error:
        raise CodecError(f"a frame is not an event: {error}") from error
