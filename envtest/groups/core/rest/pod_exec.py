"""``pods/exec``, ``pods/attach``, ``pods/portforward`` over WebSockets or SPDY.

Upstream: pkg/registry/core/pod/rest/subresources.go (v1.36)
"""

from __future__ import annotations

from functools import partial

from envtest.groups.core.rest.kubelet import choose_container, kubelet_address
from envtest.groups.core.rest.responders import Command, Responders
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.streams.channels import COMMANDS, PORTS
from opsdk.apiserver.streams.remote_command import MOST_PORTS, WebSocketStream, command, ports
from opsdk.apiserver.streams.spdy_streams import parse_port
from opsdk.apiserver.streams.spdy_upgrade import TUNNEL, accept_command, accept_ports, tunnel_ports, wants_spdy
from opsdk.http.channels import StreamChannel
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.websocket import WebSocket, accept_websocket, wants_websocket
from opsdk.structured_merge.value import JsonObject


class RunStore:
    """``pods/exec``, ``pods/attach``, ``pods/portforward``: requests that upgrade to a stream."""

    connect_methods = ("GET", "POST")
    connect_verbs = ("create", "get")

    def __init__(self, pods: LocalStore, nodes: LocalStore, kind: str, responders: Responders) -> None:
        self._pods = pods
        self._nodes = nodes
        self._kind = kind
        self._responders = responders

    def connect_options(self, path: str, request: HttpRequest) -> JsonObject:
        query = request.query
        if self._kind == "portforward":
            texts = [text for value in query.all("ports") for text in value.split(",")]
            ports = [port for port in map(parse_port, texts) if port is not None]
            options: JsonObject = {"kind": "PodPortForwardOptions", "apiVersion": "v1"}
            return {**options, "ports": ports} if ports else options
        options = {"kind": "PodExecOptions" if self._kind == "exec" else "PodAttachOptions", "apiVersion": "v1"}
        options.update({key: True for key in ("stdin", "stdout", "stderr", "tty") if _is_set(query, key)})
        if query.get("container"):
            options["container"] = query.get("container")
        if self._kind == "exec" and query.all("command"):
            options["command"] = query.all("command")
        return options

    async def connect(self, context: Context, name: str, path: str, request: HttpRequest) -> HttpResponse:
        pod = await self._pods.get(context, name)
        forwards = self._kind == "portforward"
        container = "" if forwards else choose_container(pod, request.query.get("container"))
        if not pod["spec"].get("nodeName"):
            raise api_errors.bad_request(f"pod {name} does not have a host assigned")
        if "upgrade" not in request.header("connection").lower():
            raise api_errors.bad_request("Upgrade request required")
        if (self._responders.forwarded if forwards else self._responders.run) is None:
            address = await kubelet_address(self._nodes, context, pod)
            raise api_errors.plain(f"error dialing backend: dial tcp {address}: connect: connection refused")
        if not (wants_websocket(request) or wants_spdy(request)):
            raise api_errors.bad_request(
                "unable to upgrade: WebSockets and SPDY/3.1 are spoken here, on real connections"
            )
        return self._forward(pod, request) if forwards else self._run(pod, container, request)

    def _run(self, pod: JsonObject, container: str, request: HttpRequest) -> HttpResponse:
        """Start a command over SPDY or a WebSocket. Raises 400 without a stream."""
        query = request.query
        streams = {key: _is_set(query, key) for key in ("stdin", "stdout", "stderr", "tty")}
        if not (streams["stdin"] or streams["stdout"] or streams["stderr"]):
            raise api_errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if streams["tty"]:
            streams["stderr"] = False
        words = tuple(query.all("command")) if self._kind == "exec" else ()
        remote_command = Command(pod=pod, container=container, argv=words, **streams)
        assert self._responders.run is not None
        run = partial(self._responders.run, remote_command)
        if wants_spdy(request):
            return accept_command(request, run, streams)
        first = StreamChannel.ERROR
        if remote_command.stdout:
            first = StreamChannel.STDOUT
        elif remote_command.stderr:
            first = StreamChannel.STDERR

        async def begin(socket: WebSocket, protocol: str) -> None:
            await command(WebSocketStream(socket, COMMANDS[protocol]), run, stdin=remote_command.stdin, first=first)

        return accept_websocket(request, list(COMMANDS), begin)

    def _forward(self, pod: JsonObject, request: HttpRequest) -> HttpResponse:
        """Start a port forward over SPDY or a WebSocket."""
        assert self._responders.forwarded is not None
        run = partial(self._responders.forwarded, pod)
        if wants_spdy(request):
            return accept_ports(request, run)

        async def begin(socket: WebSocket, protocol: str) -> None:
            if protocol == TUNNEL:
                await tunnel_ports(socket, run)
            else:
                await ports(WebSocketStream(socket, PORTS[protocol]), run, numbers)

        protocols = request.header("sec-websocket-protocol")
        numbers = [] if TUNNEL in protocols else _port_numbers(request.query)
        return accept_websocket(request, [TUNNEL, *PORTS], begin)


def _port_numbers(query: Query) -> list[int]:
    texts = [text for value in query.all("ports") for text in value.split(",") if text]
    if not texts:
        raise api_errors.bad_request('query parameter "port" is required')
    if len(texts) > MOST_PORTS:
        raise api_errors.bad_request(f"at most {MOST_PORTS} ports can be forwarded over one WebSocket")
    for text in texts:
        if parse_port(text) is None:
            raise api_errors.bad_request(f'unable to parse "{text}" as a port')
    return [int(text) for text in texts]


def _is_set(query: Query, key: str) -> bool:
    """Return a boolean query option with Go's semantics: present, and neither ``0`` nor ``false``."""
    return key in query and query.get(key).lower() not in ("0", "false")
