"""Commands and ports through the clients that speak WebSockets: a responder plays the pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kr8s
import kubernetes
import kubernetes_asyncio
import pytest
from kubernetes.stream import portforward, stream
from kubernetes_asyncio.stream import WsApiClient

from envtest.groups.core.rest.responders import Command
from opsdk.apiserver.streams.pipe import Pipe

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


async def play(command: Command, pipe: Pipe) -> int:
    """A shell of few words."""
    match command.argv:
        case ("cat",):
            await pipe.write(await pipe.read())
        case ("fail", code):
            await pipe.write_error("no")
            return int(code)
        case words:
            await pipe.write(" ".join(words))
    return 0


async def listening(pod: Any, port: int, pipe: Pipe) -> None:
    """Answers any request over HTTP."""
    await pipe.read()
    text = f"{pod['metadata']['name']} {port}"
    await pipe.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}")


@pytest.fixture
def pod(served: Any, namespace: str, kubeconfig: str) -> Iterator[str]:
    """The name of one that runs."""

    def begin(env: Any) -> None:
        env.responders.run, env.responders.forwarded = play, listening

    def end(env: Any) -> None:
        env.responders.run = env.responders.forwarded = None

    served.call(begin)
    with kubernetes.config.new_client_from_config(kubeconfig) as api:
        v1 = kubernetes.client.CoreV1Api(api)
        v1.create_namespaced_pod(
            namespace, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        for event in kubernetes.watch.Watch().stream(v1.list_namespaced_pod, namespace, timeout_seconds=20):
            if event["object"].status.phase == "Running":
                break
        yield "p"
    served.call(end)


def test_kubernetes_execs(pod: str, namespace: str, kubeconfig: str) -> None:
    """All of the output, the exit code, input while it runs."""
    with kubernetes.config.new_client_from_config(kubeconfig) as api:
        run = kubernetes.client.CoreV1Api(api).connect_get_namespaced_pod_exec
        assert stream(run, pod, namespace, command=["echo", "a"], stdout=True, stderr=True) == "echo a"
        socket = stream(run, pod, namespace, command=["fail", "3"], stderr=True, stdout=True, _preload_content=False)
        socket.run_forever(timeout=10)
        assert (socket.read_stderr(), socket.returncode) == ("no", 3)
        socket = stream(
            run, pod, namespace, command=["cat"], stdin=True, stdout=True, stderr=True, _preload_content=False
        )
        socket.write_stdin("through\n")
        socket.run_forever(timeout=10)
        assert (socket.read_stdout(), socket.returncode) == ("through\n", 0)


def test_kubernetes_forwards_ports(pod: str, namespace: str, kubeconfig: str) -> None:
    """A socket that is one connection to the port."""
    with kubernetes.config.new_client_from_config(kubeconfig) as api:
        forward = kubernetes.client.CoreV1Api(api).connect_get_namespaced_pod_portforward
        forwarded = portforward(forward, pod, namespace, ports="80")
        socket = forwarded.socket(80)
        socket.setblocking(True)
        socket.settimeout(10)
        socket.sendall(b"GET / HTTP/1.1\r\nHost: p\r\n\r\n")
        result = b""
        while piece := socket.recv(1024):
            result += piece
        socket.close()
        assert result.endswith(b"p 80")
        assert forwarded.error(80) is None


async def test_kubernetes_asyncio_execs(pod: str, namespace: str, kubeconfig: str) -> None:
    """Through its own client for WebSockets."""
    configuration = kubernetes_asyncio.client.Configuration()
    await kubernetes_asyncio.config.load_kube_config(kubeconfig, client_configuration=configuration)
    async with WsApiClient(configuration) as api:
        v1 = kubernetes_asyncio.client.CoreV1Api(api_client=api)
        process = await v1.connect_get_namespaced_pod_exec(
            pod, namespace, command=["echo", "b"], stdout=True, stderr=True
        )
        assert process == "echo b"


def test_kr8s_execs(pod: str, namespace: str, kubeconfig: str) -> None:
    """kr8s executes a command, and raises if it fails."""
    api = kr8s.api(kubeconfig=kubeconfig)
    result = kr8s.objects.Pod.get(pod, namespace=namespace, api=api)
    process = result.exec(["echo", "c"])
    assert (process.stdout, process.returncode) == (b"echo c", 0)
    process = result.exec(["fail", "4"], check=False)
    assert (process.stderr, process.returncode) == (b"no", 4)
