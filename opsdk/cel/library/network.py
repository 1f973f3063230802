"""URLs, IP addresses and CIDRs.

Upstream: k8s.io/apiserver/pkg/cel/library/urls.go, ip.go, cidr.go (v1.36).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Final
from urllib.parse import unquote_plus

from opsdk.cel.declarations import (
    TRAVERSAL,
    CallEstimate,
    Estimate,
    Library,
    Operand,
    Overload,
    Range,
    Sizes,
    exactly,
    function,
    method,
    scaled,
)
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.costs import estimate_unit, estimate_walk, unit, walk
from opsdk.cel.types import BOOL, INT, STRING, Type, Value, list_of, map_of, opaque
from opsdk.cel.values import Opaque
from opsdk.structured_merge.go_format import go_quote

URL: Final = opaque("kubernetes.URL")
IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")

_UNIT: Final = {"cost": unit, "estimate": estimate_unit}
_PARSE: Final = {"cost": walk(0)}


# ------------------------------------------------------------------ URLs
class UrlValue(Opaque):
    """The parts of a URL."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    cel_type: ClassVar[Type] = URL

    def __init__(self, text: str, parts: re.Match[str]) -> None:
        self.text = text
        self.scheme = (parts["scheme"] or "").lower()
        self.host = (parts["host"] or "").rpartition("@")[2]
        opaque_part = self.scheme and not text.partition(":")[2].startswith("/")
        self.path = "" if opaque_part else parts["path"]
        self.query = parts["query"] or ""

    def equals(self, other: Value) -> bool:
        """Compare the original texts."""
        return isinstance(other, UrlValue) and self.text == other.text

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return self.host.removesuffix(f":{self.port}").removeprefix("[").removesuffix("]") if self.host else ""

    @property
    def port(self) -> str:
        """The port, or an empty string."""
        match = re.search(r":([0-9]*)$", self.host)
        return match[1] if match and not self.host.endswith("]") else ""

    def parameters(self) -> dict[str, list[str]]:
        """The query parameters."""
        parameters: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if pair and ";" not in pair:
                key, _, value = pair.partition("=")
                parameters.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return parameters


_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/?]*))?(?P<path>[^?]*)(?:\?(?P<query>[^#]*).*)?",
    re.DOTALL,
)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_BAD_HOST: Final = re.compile(r"[ \"<>\\^`{|}]")


def _url_fault(text: str) -> str:
    """Return Go's error for an invalid request URI; empty for a valid one."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return "net/url: invalid control character in URL"
    if not text:
        return "empty url"
    parts = _URL.fullmatch(text)
    if text.startswith(":"):
        return "missing protocol scheme"
    if parts is None or not (parts["scheme"] or text.startswith("/")):
        if ":" in text.split("/", maxsplit=1)[0]:
            return "first path segment in URL cannot contain colon"
        return "invalid URI for request"
    bad = _BAD_ESCAPE.search(parts["path"]) or _BAD_ESCAPE.search(parts["host"] or "")
    if bad:
        return f"invalid URL escape {go_quote(bad[0])}"
    host = (parts["host"] or "").rpartition("@")[2]
    odd = _BAD_HOST.search(host)
    if odd:
        return f"invalid character {go_quote(odd[0])} in host name"
    port = host.rpartition(":")[2] if ":" in host and not host.endswith("]") else ""
    if port and not port.isdecimal():
        return f"invalid port {go_quote(f':{port}')} after host"
    return ""


def _url(text: str) -> UrlValue:
    fault = _url_fault(text)
    if fault:
        raise CelEvaluationError(f"URL parse error during conversion from string: parse {go_quote(text)}: {fault}")
    parts = _URL.fullmatch(text)
    assert parts is not None
    return UrlValue(text, parts)


_SAFE: Final = re.compile(r"[^A-Za-z0-9_.~$&+,/:;=@!'()*%\[\]-]")


def _escaped(path: str) -> str:
    return _SAFE.sub(lambda char: "".join(f"%{byte:02X}" for byte in char[0].encode()), path)


def _url_part(name: str, result: Type, call: Callable[[UrlValue], Value]) -> list[Overload]:
    return [method(f"url_{name}", (URL,), result, call, **_UNIT)]


URL_LIBRARY: Final = Library(
    functions={
        "url": [function("string_to_url", (STRING,), URL, _url, cost=walk(0), estimate=estimate_walk(keeps_size=True))],
        "isURL": [function("is_url_string", (STRING,), BOOL, lambda text: not _url_fault(text))],
        "getScheme": _url_part("get_scheme", STRING, lambda url: url.scheme),
        "getHost": _url_part("get_host", STRING, lambda url: url.host),
        "getHostname": _url_part("get_hostname", STRING, lambda url: url.hostname),
        "getPort": _url_part("get_port", STRING, lambda url: url.port),
        "getEscapedPath": _url_part("get_escaped_path", STRING, lambda url: _escaped(url.path)),
        "getQuery": _url_part("get_query", map_of(STRING, list_of(STRING)), UrlValue.parameters),
    },
    types={URL.name: URL},
)
"""The URL library."""


# ------------------------------------------------------------------ addresses
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


class IpValue(Opaque):
    """An IP address."""

    __slots__ = ("address",)
    cel_type: ClassVar[Type] = IP

    def __init__(self, address: Address) -> None:
        self.address = address

    def equals(self, other: Value) -> bool:
        """Compare addresses of the same family."""
        return isinstance(other, IpValue) and self.address == other.address


class CidrValue(Opaque):
    """An address with a prefix length."""

    __slots__ = ("network",)
    cel_type: ClassVar[Type] = CIDR

    def __init__(self, network: Network) -> None:
        self.network = network

    def equals(self, other: Value) -> bool:
        """Compare address and prefix length."""
        return isinstance(other, CidrValue) and self.network == other.network

    @property
    def size(self) -> int:
        """The size of the address in bytes."""
        return len(self.network.ip.packed)


_FIELDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def _parse_ip(text: str) -> Address | str:
    """Parse an address, or return the error text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        parse = f"ParseAddr({go_quote(text)})"
        if ":" not in text and "." in text and _FIELDS.fullmatch(text):
            fields = text.split(".")
            if any(len(field) > 1 and field[0] == "0" for field in fields):
                return f"{parse}: IPv4 field has octet with leading zero"
            if any(int(field[:9]) > 255 for field in fields):
                return f"{parse}: IPv4 field has value >255"
            return f"{parse}: IPv4 address too {'short' if len(fields) < 4 else 'long'}"
        return f"{parse}: unable to parse IP"
    if "%" in text:
        return f'IP address "{text}" with zone value is not allowed'
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return f'IPv4-mapped IPv6 address "{text}" is not allowed'
    return address


def _ip(text: str) -> IpValue:
    address = _parse_ip(text)
    if isinstance(address, str):
        parse = f'IP Address "{text}" parse error during conversion from string: '
        raise CelEvaluationError(f"{parse if address.startswith('ParseAddr') else ''}{address}")
    return IpValue(address)


def _parse_cidr(text: str) -> Network | str:
    address, slash, bits = text.partition("/")
    prefix = f"netip.ParsePrefix({go_quote(text)})"
    if not slash:
        return f"{prefix}: no '/'"
    address_found = _parse_ip(address)
    if isinstance(address_found, str):
        return f"{prefix}: {address_found}" if address_found.startswith("ParseAddr") else address_found
    if not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0"):
        return f"{prefix}: bad bits after slash: {go_quote(bits)}"
    if int(bits[:9]) > address_found.max_prefixlen:
        return f"{prefix}: prefix length out of range"
    return ipaddress.ip_interface(text)


def _cidr(text: str) -> CidrValue:
    network = _parse_cidr(text)
    if isinstance(network, str):
        parse = "network address parse error during conversion from string: "
        raise CelEvaluationError(f"{parse if network.startswith('netip') else ''}{network}")
    return CidrValue(network)


def _contains_ip(cidr: CidrValue, ip: IpValue | str) -> bool:
    address = (ip if isinstance(ip, IpValue) else _ip(ip)).address
    return address in cidr.network.network


def _contains_cidr(cidr: CidrValue, other: CidrValue | str) -> bool:
    inner = (other if isinstance(other, CidrValue) else _cidr(other)).network
    outer = cidr.network
    longer = inner.network.prefixlen >= outer.network.prefixlen
    return inner.version == outer.version and longer and inner.ip in outer.network


def _masked(cidr: CidrValue) -> CidrValue:
    network = cidr.network.network
    return CidrValue(ipaddress.ip_interface(f"{network.network_address}/{network.prefixlen}"))


def _containing_cost(*, network: bool) -> Callable[[Sequence[Value], Value], int]:
    def cost(args: Sequence[Value], _: Value) -> int:
        size = args[0].size
        total = scaled(2 * size, TRAVERSAL)
        if network:
            total += scaled(size, TRAVERSAL) + 1
        return total + (scaled(len(args[1]), TRAVERSAL) if isinstance(args[1], str) else 0)

    return cost


_BYTES: Final = Range(4, 16)


def _estimate_containing(*, network: bool) -> Estimate:
    def estimate(sizes: Sizes, operands: Sequence[Operand]) -> CallEstimate:
        cost = (_BYTES + _BYTES).scaled(TRAVERSAL)
        if network:
            cost += _BYTES.scaled(TRAVERSAL) + exactly(1)
        if operands[1].type == STRING:
            cost += sizes.size(operands[1]).scaled(TRAVERSAL)
        return CallEstimate(cost)

    return estimate


def _ip_test(name: str, call: Callable[[Address], bool]) -> list[Overload]:
    return [method(f"ip_{name}", (IP,), BOOL, lambda ip: call(ip.address), **_UNIT)]


def _is_global(address: Address) -> bool:
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local:
        return False
    return str(address) != "255.255.255.255"


def _link_local_multicast(address: Address) -> bool:
    networks = ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16")
    return any(address in network for network in networks)


_HOLDS_IP: Final = {"cost": _containing_cost(network=False), "estimate": _estimate_containing(network=False)}
_HOLDS_CIDR: Final = {"cost": _containing_cost(network=True), "estimate": _estimate_containing(network=True)}

IP_LIBRARY: Final = Library(
    functions={
        "ip": [function("string_to_ip", (STRING,), IP, _ip, **_PARSE)],
        "isIP": [function("is_ip", (STRING,), BOOL, lambda text: not isinstance(_parse_ip(text), str), **_PARSE)],
        "ip.isCanonical": [
            function(
                "ip_is_canonical", (STRING,), BOOL, lambda text: str(_ip(text).address) == text, cost=walk(0, times=2)
            )
        ],
        "family": [method("ip_family", (IP,), INT, lambda ip: ip.address.version, **_UNIT)],
        "isUnspecified": _ip_test("is_unspecified", lambda address: address.is_unspecified),
        "isLoopback": _ip_test("is_loopback", lambda address: address.is_loopback),
        "isLinkLocalMulticast": _ip_test("is_link_local_multicast", _link_local_multicast),
        "isLinkLocalUnicast": _ip_test("is_link_local_unicast", lambda address: address.is_link_local),
        "isGlobalUnicast": _ip_test("is_global_unicast", _is_global),
        "string": [function("ip_to_string", (IP,), STRING, lambda ip: str(ip.address))],
    },
    types={IP.name: IP},
)
"""The IP address library."""

CIDR_LIBRARY: Final = Library(
    functions={
        "cidr": [function("string_to_cidr", (STRING,), CIDR, _cidr, **_PARSE)],
        "isCIDR": [function("is_cidr", (STRING,), BOOL, lambda text: not isinstance(_parse_cidr(text), str), **_PARSE)],
        "containsIP": [
            method("cidr_contains_ip_string", (CIDR, STRING), BOOL, _contains_ip, **_HOLDS_IP),
            method("cidr_contains_ip_ip", (CIDR, IP), BOOL, _contains_ip, **_HOLDS_IP),
        ],
        "containsCIDR": [
            method("cidr_contains_cidr_string", (CIDR, STRING), BOOL, _contains_cidr, **_HOLDS_CIDR),
            method("cidr_contains_cidr", (CIDR, CIDR), BOOL, _contains_cidr, **_HOLDS_CIDR),
        ],
        "ip": [method("cidr_ip", (CIDR,), IP, lambda cidr: IpValue(cidr.network.ip), **_UNIT)],
        "masked": [method("cidr_masked", (CIDR,), CIDR, _masked, **_UNIT)],
        "prefixLength": [
            method("cidr_prefix_length", (CIDR,), INT, lambda cidr: cidr.network.network.prefixlen, **_UNIT)
        ],
        "string": [function("cidr_to_string", (CIDR,), STRING, lambda cidr: str(cidr.network))],
    },
    types={CIDR.name: CIDR},
)
"""The CIDR library."""
