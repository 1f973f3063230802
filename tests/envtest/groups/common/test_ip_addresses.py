"""Notation of IP addresses and CIDRs."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.groups.common.ip_addresses import address_warnings, block, block_warnings, ip_address

NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_BLOCK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
ZEROS = "must not have leading 0s in IP or prefix length"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.2.3.4", ""),
        ("::1.2.3.4", ""),
        ("ABCD::1", ""),
        ("", NO_ADDRESS),
        ("1.2.3", NO_ADDRESS),
        (" 1.2.3.4", NO_ADDRESS),
        ("256.1.1.1", NO_ADDRESS),
        ("fe80::1%eth0", NO_ADDRESS),
        ("1::2::3", NO_ADDRESS),
        ("010.0.0.1", "must not have leading 0s"),
        ("1.2.3.04", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
    ],
)
def test_ip_addresses_have_no_leading_zeros_or_mapped_form(text: str, why: str) -> None:
    """An IP address has no zone, no leading zeros, and no IPv4-mapped form."""
    expected = [f'Invalid value: "{text}": {why}'] if why else []
    assert [cause.message for cause in ip_address(text, "f")] == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.0/8", ""),
        ("fd00:0::/64", ""),
        ("::/0", ""),
        ("nope", NO_BLOCK),
        ("10.0.0.0", NO_BLOCK),
        ("10.0.0.0/33", NO_BLOCK),
        ("1.2.3.4/+8", NO_BLOCK),
        ("010.0.0.0/8", ZEROS),
        ("10.0.0.5/08", ZEROS),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.5/8", "must not have bits set beyond the prefix length"),
    ],
)
def test_cidrs_have_no_bits_beyond_their_prefix(text: str, why: str) -> None:
    """A CIDR has no bits set beyond its prefix, no leading zeros, and no IPv4-mapped form."""
    expected = [f'Invalid value: "{text}": {why}'] if why else []
    assert [cause.message for cause in block(text, "f")] == expected


@given(st.ip_addresses())
def test_what_is_written_plainly_is_right(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Python's own notation of an address is canonical and gives no warning."""
    mapped = found.version == 6 and found.ipv4_mapped is not None
    assert bool(list(ip_address(str(found), "f", canonical=True))) == mapped
    assert list(address_warnings(str(found), "f")) == []
    alone = f"{found}/{found.max_prefixlen}"
    assert bool(list(block(alone, "f", canonical=True))) == mapped
    assert list(block_warnings(alone, "f")) == []


@given(st.ip_addresses(v=6), st.integers(0, 128))
def test_longer_forms_are_not_canonical(found: ipaddress.IPv6Address, length: int) -> None:
    """A non-canonical address is an error where the canonical form is required, and a warning elsewhere."""
    if found.ipv4_mapped is not None or found.exploded == str(found):
        return
    whole = ipaddress.ip_network(f"{found}/{length}", strict=False)
    [cause] = ip_address(found.exploded, "f", canonical=True)
    assert cause.message.endswith(f': must be in canonical form ("{found}")')
    [warning] = address_warnings(found.exploded, "f")
    assert warning.endswith(f'should be in RFC 5952 canonical format ("{found}")')
    if whole.network_address.exploded != str(whole.network_address) and whole.network_address.ipv4_mapped is None:
        [warning] = block_warnings(f"{whole.network_address.exploded}/{length}", "f")
        assert warning.endswith(f'("{whole}")')
