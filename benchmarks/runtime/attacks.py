"""Requests that were expensive once: what each costs the server, and how late ``/healthz`` is while all of them run.

The server is a process of its own, so the CPU time is the server's alone. The kernel counts it in hundredths of a
second: each attack runs ten times.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.runtime.attacked_server import DEFINITIONS, MAPS, PODS, WIDGETS, AttackedServer, definition
from benchmarks.runtime.health import HealthProbe
from benchmarks.runtime.hostile import ATTACKS as HOSTILE_ATTACKS
from benchmarks.runtime.hostile import SECONDS as HOSTILE_SECONDS
from benchmarks.runtime.hostile import attack_operator
from benchmarks.runtime.slow_schemas import check_slowly
from benchmarks.runtime.unread import COUNTS, unread_bodies, unread_lists, unread_protobuf_lists, unread_watches

SMALL: Final = 60 * 1024
LARGE: Final = 3 * 1024 * 1024 - 4096
"""With what an attack adds, at most 3 MiB: larger bodies are refused."""
_REPEATS: Final = 10
_TARGET_SECONDS: Final = 0.05
"""CPU of one attack of 60 KB."""
_HEALTH_SECONDS: Final = 0.1
"""The latest response of ``/healthz``."""
_LARGE_SECONDS: Final = _TARGET_SECONDS * LARGE / SMALL
"""CPU of one attack of 3 MB: as many times that of 60 KB as it is larger."""
_UNTIL: Final = 10.0


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of request; `write` returns about so many bytes of it, without the user's token."""

    name: str
    write: Callable[[int], tuple[str, dict[str, str], bytes]]
    anonymous: bool = False
    in_head: bool = False
    """The bytes are in the head, which has a limit of 1 MiB."""
    on_norman: bool = False

    def request(self, size: int, token: str = "") -> bytes:
        """Return the bytes of the request; the server closes the connection behind it."""
        line, headers, body = self.write(min(size, 1_000_000) if self.in_head else size)
        framing = {} if "Transfer-Encoding" in headers or not body else {"Content-Length": str(len(body))}
        login = {} if self.anonymous or not token else {"Authorization": f"Bearer {token}"}
        lines = {"Host": "attacked", "Connection": "close", **login, **framing, **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{line} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def _get(query: Callable[[int], str], path: str = PODS) -> Callable[[int], tuple[str, dict[str, str], bytes]]:
    return lambda size: (f"GET {path}?{query(size)}", {}, b"")


def _header(
    name: str, value: Callable[[int], str], line: str = f"POST {MAPS}"
) -> Callable[[int], tuple[str, dict[str, str], bytes]]:
    return lambda size: (line, {name: value(size)}, b"{}" if line.startswith("POST") else b"")


def _send(
    kind: str, body: Callable[[int], bytes], line: str = f"POST {MAPS}"
) -> Callable[[int], tuple[str, dict[str, str], bytes]]:
    return lambda size: (line, {"Content-Type": kind}, body(size))


def _copies(size: int) -> bytes:
    step = {"op": "copy", "from": "/data", "path": "/data/x"}
    return json.dumps([step] * (size // (len(json.dumps(step)) + 2))).encode()


def _merge(size: int) -> bytes:
    names = [f"example.com/{number:06d}" for number in range(size // 50)]
    lists = {"finalizers": names, "$setElementOrder/finalizers": names}
    return json.dumps({"metadata": lists}).encode()


def _deletions(size: int) -> bytes:
    names = [f"n{number:06d}" for number in range(size // 40)]
    deleted: list[dict[str, str]] = [{"$patch": "delete", "name": name} for name in names]
    return json.dumps({"spec": {"containers": [*deleted, {"name": "c", "image": "i"}]}}).encode()


def _pod(quantity: str) -> bytes:
    container = {"name": "c", "image": "i", "resources": {"limits": {"memory": quantity}}}
    return json.dumps({"metadata": {"generateName": "p"}, "spec": {"containers": [container]}}).encode()


def _applied(size: int) -> bytes:
    data = "".join(f'"k{number:06}":"value",' for number in range(size // 18))
    return f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{{data}"z":"v"}}}}'.encode()


def _containers(size: int) -> bytes:
    containers = [{"name": f"container-{number:06}", "image": "i"} for number in range(size // 50)]
    return json.dumps({"metadata": {"generateName": "p"}, "spec": {"containers": containers}}).encode()


def _widget(spec: str) -> bytes:
    text = f'{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"generateName":"w"}},"spec":{{{spec}}}}}'
    return text.encode()


def _free(size: int) -> bytes:
    return _widget('"free":{' + "".join(f'"key{number:09}":0,' for number in range(size // 18)) + '"z":0}')


def _unknown(size: int) -> bytes:
    return _widget("".join(f'"u{number:06}":{{}},' for number in range(size // 14)) + '"free":{}')


def _items(size: int) -> bytes:
    return _widget('"items":[' + '{"a":"0123456789012345678"},' * (size // 28) + "{}]")


def _managers(size: int) -> bytes:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entries = [{**entry, "fieldsV1": {"f:data": {f"f:k{number:07}": {}}}} for number in range(size // 150)]
    return json.dumps({"metadata": {"generateName": "m", "managedFields": entries}}).encode()


def _front(size: int) -> bytes:
    step = {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/a"}
    first = {"op": "add", "path": "/metadata/finalizers", "value": []}
    return json.dumps([first, *[step] * (size // (len(json.dumps(step)) + 2))]).encode()


def _kind(spec: dict[str, object]) -> bytes:
    return json.dumps(definition("Gadget", {"type": "object", **spec})).encode()


def _rules(size: int) -> bytes:
    rule = {"rule": "self.a.all(x, x.startsWith('b') && self.a.exists(y, y == x))"}
    a = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}}
    return _kind({"properties": {"a": a}, "x-kubernetes-validations": [rule] * (size // 80)})


def _properties(size: int) -> bytes:
    return _kind({"properties": {f"p{number:07}": {"type": "string"} for number in range(size // 34)}})


def _nested(size: int) -> bytes:
    inner = b'{"type":"object","properties":{"a":'
    whole = _kind({"properties": {"a": {"type": "string"}}})
    depth = size // (len(inner) + 2)
    return whole.replace(b'{"type": "string"}', inner * depth + b'{"type":"string"}' + b"}}" * depth)


def _patterns(size: int) -> bytes:
    return _kind({"properties": {"a": {"type": "string", "pattern": "(a?){1,9}" * (size // 9)}}})


def _form(head: bytes, unit: bytes, line: str) -> Callable[[int], tuple[str, dict[str, str], bytes]]:
    """Return a multipart form whose parts are `unit`."""

    def body(size: int) -> bytes:
        return head + unit * (size // len(unit)) + b"--x--"

    return _send("multipart/form-data; boundary=x", body, line)


def _stamp() -> bytes:
    return json.dumps({"metadata": {"labels": {"a": f"b{time.monotonic_ns()}"}}}).encode()


def _read(headers: dict[str, str]) -> Callable[[int], tuple[str, dict[str, str], bytes]]:
    """Read the object of the last attack that applies."""
    return lambda _: (f"GET {MAPS}/a", headers, b"")


_JSON, _YAML = "application/json", "application/yaml"
_FORM_PART = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nb\r\n'
_V3 = "/v3/configmaps"
_FORM = "application/x-www-form-urlencoded"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_PATCH = f"PATCH {MAPS}/victim"
ATTACKS: Final = (
    Attack("field selector of blanks", _get(lambda n: "fieldSelector=" + "+" * n), anonymous=True, in_head=True),
    Attack(
        "field selector of terms", _get(lambda n: "fieldSelector=" + "a=b," * (n // 4)), anonymous=True, in_head=True
    ),
    Attack("label selector of blanks", _get(lambda n: "labelSelector=" + "+" * n), in_head=True),
    Attack("label selector of values", _get(lambda n: f"labelSelector=a+in+({'b,' * (n // 2)}b)"), in_head=True),
    Attack("long path", lambda n: (f"GET /{'a/' * (n // 2)}", {}, b""), anonymous=True, in_head=True),
    Attack("many parameters", _get(lambda n: "a&" * (n // 2)), anonymous=True, in_head=True),
    Attack("Accept of clauses", _header("Accept", lambda n: "a/b;q=0.1," * (n // 10)), in_head=True),
    Attack("Content-Type of blanks", _header("Content-Type", lambda n: f"a{' ' * n}!"), in_head=True),
    Attack(
        "bearer token", _header("Authorization", lambda n: f"Bearer {'a.' * (n // 2)}"), anonymous=True, in_head=True
    ),
    Attack("groups to impersonate", _header("Impersonate-Group", lambda n: "a," * (n // 2)), in_head=True),
    Attack(
        "many headers",
        lambda n: (f"GET {PODS}", {f"X{number}": "" for number in range(n // 10)}, b""),
        anonymous=True,
        in_head=True,
    ),
    Attack(
        "trailers",
        lambda n: (
            f"POST {MAPS}",
            {"Transfer-Encoding": "chunked"},
            b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * (n // 6) + b"\r\n",
        ),
    ),
    Attack(
        "small chunks",
        lambda n: (f"POST {MAPS}", {"Transfer-Encoding": "chunked"}, b"1\r\n \r\n" * (n // 6) + b"0\r\n\r\n"),
    ),
    Attack("JSON patch of copies", _send("application/json-patch+json", _copies, _PATCH)),
    Attack("JSON patch of insertions", _send("application/json-patch+json", _front, _PATCH)),
    Attack("strategic merge of finalizers", _send(_STRATEGIC, _merge, _PATCH)),
    Attack(
        "strategic merge of deletions",
        _send(_STRATEGIC, _deletions, f"PATCH {PODS}/victim"),
    ),
    Attack("merge patch of depth", _send(_MERGE, lambda n: b'{"a":' * (n // 5), _PATCH)),
    Attack("JSON of depth", _send(_JSON, lambda n: b"[" * n)),
    Attack("JSON of values", _send(_JSON, lambda n: b'{"a":[' + b"0," * (n // 2) + b"0]}")),
    Attack("JSON of repeated keys", _send(_JSON, lambda n: b"{" + b'"a":1,' * (n // 6) + b'"a":1}')),
    Attack("JSON of escapes", _send(_JSON, lambda n: b'{"a":"' + b"\\ud800" * (n // 6) + b'"}')),
    Attack("YAML of values", _send(_YAML, lambda n: b"[" + b"0," * (n // 2) + b"0]")),
    Attack("YAML of mappings", _send(_YAML, lambda n: b"- a: b\n" * (n // 7))),
    Attack("YAML of aliases", _send(_YAML, lambda n: b"a: &a [b]\nc: [" + b"*a," * (n // 3) + b"*a]")),
    Attack("YAML number to the base 60", _send(_YAML, lambda n: b"a: " + b"1:" * (n // 2) + b"1")),
    Attack("YAML that is unreadable", _send(_YAML, lambda n: b"- a: b\n" * (n // 7) + b"@")),
    Attack("quantity of digits", _send(_JSON, lambda n: _pod("9" * n), f"POST {PODS}")),
    Attack("unknown fields", _send(_JSON, _unknown, f"POST {WIDGETS}")),
    Attack("pod of containers", _send(_JSON, _containers, f"POST {PODS}")),
    Attack("custom object of fields", _send(_JSON, _free, f"POST {WIDGETS}")),
    Attack("managed fields", _send(_JSON, _managers)),
    Attack("custom object of items", _send(_JSON, _items, f"POST {WIDGETS}")),
    Attack("apply of fields", _send("application/apply-patch+yaml", _applied, f"PATCH {MAPS}/a?fieldManager=x")),
    # The object of the last apply is as large.
    Attack("small patch", _send(_MERGE, lambda _: b'{"metadata":{"labels":{"a":"b"}}}', f"PATCH {MAPS}/a")),
    Attack("small patch that changes", _send(_MERGE, lambda _: _stamp(), f"PATCH {MAPS}/a")),
    Attack("read as YAML", _read({"Accept": _YAML})),
    Attack("read with indents", _read({"User-Agent": "curl/8"})),
    Attack("read with gzip", _read({"Accept-Encoding": "gzip"})),
    Attack("deletion", lambda _: (f"DELETE {MAPS}/a", {}, b"")),
)


DEFINITION_ATTACKS: Final = (
    Attack("definition of rules", _send(_JSON, _rules, f"POST {DEFINITIONS}?dryRun=All")),
    Attack("definition of properties", _send(_JSON, _properties, f"POST {DEFINITIONS}?dryRun=All")),
    Attack("definition of depth", _send(_JSON, _nested, f"POST {DEFINITIONS}?dryRun=All")),
    Attack("definition of a pattern", _send(_JSON, _patterns, f"POST {DEFINITIONS}?dryRun=All")),
)
"""Only administrators may create definitions: the table shows them without a limit, and no attacker plays them."""
NORMAN_ATTACKS: Final = tuple(
    Attack(name, write, on_norman=True, in_head=in_head, anonymous=anonymous)
    for name, write, in_head, anonymous in (
        ("/v3: filter of values", _get(lambda n: "name_in=" + "a," * (n // 2), _V3), True, False),
        ("/v3: many filters", _get(lambda n: "name=a&" * (n // 7), _V3), True, False),
        (
            "/v3: JSON of values",
            _send(_JSON, lambda n: b'{"a":[' + b"0," * (n // 2) + b"0]}", f"POST {_V3}"),
            False,
            False,
        ),
        ("/v3: form of parts", _form(b"", _FORM_PART, f"POST {_V3}"), False, False),
        ("/v3: form of lines", _form(_FORM_PART.strip(), b"\r\n", f"POST {_V3}"), False, False),
        ("/v3: form of headers", _form(b"--x\r\n", b"a: b\r\n", f"POST {_V3}"), False, False),
        ("/v3: form of pairs", _send(_FORM, lambda n: b"a=b&" * (n // 4), f"POST {_V3}"), False, False),
        ("/v3: anonymous form of parts", _form(b"", _FORM_PART, f"POST {_V3}"), False, True),
        ("norman: cookies", _header("Cookie", lambda n: "a=b; " * (n // 5), f"GET {_V3}"), True, True),
        ("norman: Accept of clauses", _header("Accept", lambda n: "a/b;q=0.1," * (n // 10), f"GET {_V3}"), True, False),
        ("norman: long path", lambda n: (f"GET {_V3}/{'a/' * (n // 2)}", {}, b""), True, False),
    )
)


LIST_ATTACKS: Final = (Attack("/v3: list as YAML", lambda _: ("GET /v3/pods", {"Accept": _YAML}, b""), on_norman=True),)
"""It has the pods of all attacks before: the table shows them without a limit, and no attacker plays them."""


async def exchange(port: int, request: bytes, *, seconds: float = 120) -> bytes:
    """Send a request and return the response; empty if the server has closed the connection before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        async with asyncio.timeout(seconds):
            sending = asyncio.ensure_future(_send_all(writer, request))
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
    finally:
        writer.close()


async def _send_all(writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    await writer.drain()


# ------------------------------------------------------------------ the benchmark
def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _attacker(requests: list[tuple[int, bytes]], end: float) -> None:
    """Play the attacks one after another, four a second."""
    while time.monotonic() < end:
        for port, request in requests:
            await exchange(port, request)
            await asyncio.sleep(0.25)
            if time.monotonic() > end:
                return


def _port(server: AttackedServer, attack: Attack) -> int:
    return server.norman_port if attack.on_norman else server.port


async def _besiege(server: AttackedServer, size: int) -> None:
    """Print the latency of ``/healthz`` while ten attackers play all attacks of a size."""
    end = time.monotonic() + _UNTIL
    attacks = (*ATTACKS, *NORMAN_ATTACKS)
    requests = [(_port(server, attack), attack.request(size, server.token)) for attack in attacks]
    shift = len(requests) // 10
    attackers = [_attacker(requests[shift * n :] + requests[: shift * n], end) for n in range(10)]
    async with HealthProbe(server.port, pause=0.25) as health:
        await asyncio.gather(*attackers)
    latest = health.latest
    print(
        f"/healthz beside ten attackers with {size / 1024:,.0f} KB: {len(health.latencies)} requests, at most"
        f" {1000 * latest:.0f} ms ({'over' if latest > _HEALTH_SECONDS else 'within'} {1000 * _HEALTH_SECONDS:.0f} ms)"
    )


@asynccontextmanager
async def _attacked() -> AsyncIterator[tuple[AttackedServer, int]]:
    """Start the attacked server in a process of its own, and yield its process id too."""
    module = "benchmarks.runtime.attacked_server"
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield AttackedServer(**json.loads(await process.stdout.readline())), process.pid
    finally:
        process.terminate()
        await process.wait()


async def run() -> None:
    """Print the latency of ``/healthz`` while ten attackers play all attacks, tables of the attacks, and memory."""
    async with _attacked() as (server, pid):
        await _besiege(server, SMALL)
        await _print_table(server, pid)
        await _besiege(server, LARGE)
    await _print_memory()
    async with _attacked() as (server, _):
        for slow in await check_slowly(server, exchange):
            late = _judged(slow.latest)
            print(f"{slow.name:32} {slow.status} in {slow.seconds:4.1f} s, /healthz at most {late}")


def _judged(latest: float) -> str:
    verdict = "over" if latest > _HEALTH_SECONDS else "within"
    return f"{1000 * latest:.0f} ms ({verdict} {1000 * _HEALTH_SECONDS:.0f} ms)"


async def _print_memory() -> None:
    """Print what clients that do not read cost the server, and what a hostile server costs an operator."""
    for play in (unread_watches, unread_lists, unread_protobuf_lists, unread_bodies):
        for count in COUNTS:
            async with _attacked() as (server, pid):
                row = await play(server, pid, count, exchange)
            memory = f"{row.before:.0f} MiB, then {row.during:.0f}, after they left {row.after:.0f}"
            print(f"{row.name:32} {memory}, /healthz at most {_judged(row.latest)}")
    for name in HOSTILE_ATTACKS:
        hostile = await attack_operator(name)
        seconds = f"{hostile.requests} requests in {HOSTILE_SECONDS:.0f} s"
        print(f"{name:32} operator {hostile.before:.0f} MiB, at most {hostile.most:.0f}, {seconds}")


async def _print_table(server: AttackedServer, pid: int) -> None:
    print(f"{'attack':32} {'60 KB: status':>14} {'CPU ms':>8} {'3 MB: status':>14} {'CPU ms':>8}")
    attacks = (*ATTACKS, *NORMAN_ATTACKS, *LIST_ATTACKS, *DEFINITION_ATTACKS)
    cells: dict[str, list[str]] = {attack.name: [] for attack in attacks}
    for size, repeats, limit in ((SMALL, _REPEATS, _TARGET_SECONDS), (LARGE, 1, _LARGE_SECONDS)):
        failed = []
        for attack in attacks:
            request = attack.request(size, server.token)
            response = await exchange(_port(server, attack), request)
            start = _cpu(pid)
            for _ in range(repeats):
                response = await exchange(_port(server, attack), request)
            seconds = (_cpu(pid) - start) / repeats
            status = response[9:12].decode() or "closed"
            cells[attack.name].append(f"{status:>14} {1000 * seconds:8.1f}")
            if seconds > limit and attack not in (*LIST_ATTACKS, *DEFINITION_ATTACKS):
                failed.append(attack.name)
        cells[f"over {1000 * limit:,.0f} ms at {size / 1024:,.0f} KB: {', '.join(failed) or 'none'}"] = []
    for name, both in cells.items():
        print(f"{name:32} {' '.join(both)}".rstrip())
