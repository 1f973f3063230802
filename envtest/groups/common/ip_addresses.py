"""Validation of and warnings about IP addresses and CIDRs in fields.

Upstream: k8s.io/apimachinery/pkg/util/validation/ip.go (v1.36)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from opsdk.apiserver import api_errors
from opsdk.errors import Cause

_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BLOCK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:.])0+(?=[0-9])|(?<=\.)0+(?=[0-9])")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def read_address(text: str) -> Address | None:
    """Parse an address as Go's net.ParseIP did before 1.17: leading zeros are allowed.

    >>> read_address("010.0.0.1"), read_address("fe80::1%eth0")
    (IPv4Address('10.0.0.1'), None)
    """
    try:
        return None if "%" in text else ipaddress.ip_address(_ZEROS.sub("", text) if ":" not in text else text)
    except ValueError:
        return None


def read_block(text: str) -> Interface | None:
    """Parse a CIDR; see `read_address`."""
    address, slash, length = text.partition("/")
    interface = read_address(address)
    if interface is None or not slash or not re.fullmatch(r"[0-9]+", length) or int(length) > interface.max_prefixlen:
        return None
    return ipaddress.ip_interface(f"{interface}/{int(length)}")


def _mapped(address: Address) -> bool:
    return address.version == 6 and address.ipv4_mapped is not None


def ip_address(text: str, field: str, *, canonical: bool = False) -> Iterator[Cause]:
    """Validate an IP address; with `canonical`, in its canonical form only."""
    parsed = read_address(text)
    if parsed is None:
        yield api_errors.invalid_value(field, text, _ADDRESS)
    elif parsed.version == 4 and str(parsed) != text:
        yield api_errors.invalid_value(field, text, "must not have leading 0s")
    elif _mapped(parsed):
        yield api_errors.invalid_value(field, text, "must not be an IPv4-mapped IPv6 address")
    elif canonical and str(parsed) != text:
        yield api_errors.invalid_value(field, text, f"must be in canonical form ({api_errors.quoted(str(parsed))})")


def block(text: str, field: str, *, canonical: bool = False) -> Iterator[Cause]:
    """Validate a CIDR; with `canonical`, in its canonical form only."""
    parsed = read_block(text)
    if parsed is None:
        yield api_errors.invalid_value(field, text, _BLOCK)
        return
    address, _, length = text.partition("/")
    if length != str(int(length)) or (parsed.version == 4 and str(parsed.ip) != address):
        yield api_errors.invalid_value(field, text, "must not have leading 0s in IP or prefix length")
    elif _mapped(parsed.ip):
        yield api_errors.invalid_value(field, text, "must not have an IPv4-mapped IPv6 address")
    elif parsed.ip != parsed.network.network_address:
        yield api_errors.invalid_value(field, text, "must not have bits set beyond the prefix length")
    elif canonical and str(parsed) != text:
        yield api_errors.invalid_value(field, text, f"must be in canonical form ({api_errors.quoted(str(parsed))})")


_SPECIAL = tuple(
    (tuple(ipaddress.ip_network(block) for block in blocks), text)
    for blocks, text in (
        (("0.0.0.0/32", "::/128"), "may not be unspecified (0.0.0.0 or ::)"),
        (("127.0.0.0/8", "::1/128"), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (("169.254.0.0/16", "fe80::/10"), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (("224.0.0.0/24", "ff02::/16"), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
)


def special_address(address: str, path: str) -> Iterator[Cause]:
    """Validate an address of an ordinary host: not unspecified, loopback or link-local."""
    causes = list(ip_address(address, path))
    yield from causes
    if causes:
        return
    parsed = ipaddress.ip_address(address)
    for blocks, text in _SPECIAL:
        if any(parsed in block for block in blocks):
            yield api_errors.invalid_value(path, address, text)


def address_warnings(text: str, at: str) -> Iterator[str]:
    """Warn of an IPv6 address that is not in its canonical form."""
    parsed = read_address(text)
    if parsed is not None and parsed.version == 6 and str(parsed) != text:
        yield f'{at}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{parsed}")'


def block_warnings(text: str, at: str) -> Iterator[str]:
    """Warn of a CIDR with host bits, or of an IPv6 CIDR that is not in its canonical form."""
    parsed = read_block(text)
    if parsed is None:
        return
    if parsed.ip != parsed.network.network_address:
        alone = f"{parsed.ip}/{parsed.max_prefixlen}"
        yield f'{at}: CIDR value "{text}" is ambiguous in this context (should be "{parsed.network}" or "{alone}"?)'
    elif parsed.version == 6 and str(parsed) != text:
        yield f'{at}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{parsed}")'
