"""Laws of the libraries beyond the standard one, by examples and against Python."""

from __future__ import annotations

import ipaddress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import INT, STRING

ENVIRONMENT = kubernetes_environment().extend(variables={"s": STRING, "t": STRING, "i": INT})


def value(text: str, **variables: object) -> object:
    """The value of an expression."""
    return ENVIRONMENT.compile(text).evaluate(variables)


@pytest.mark.parametrize(
    "text",
    [
        # quantities
        "quantity('1.5Gi').asApproximateFloat() == 1610612736.0 && quantity('2k').asInteger() == 2000",
        "quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('1k')) == quantity('49000')",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && sign(quantity('1m')) == 1",
        "quantity('200M').isLessThan(quantity('1G')) && quantity('1Ki').isGreaterThan(quantity('1k'))",
        "quantity('1') == quantity('1000m') && quantity('1') != quantity('2') && !quantity('0.1').isInteger()",
        "isQuantity('1e3') && isQuantity('.5') && !isQuantity('1Mi ') && !isQuantity('') && !isQuantity('1mi')",
        # versions
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1')) && semver('1.0.0-2').isLessThan(semver('1.0.0-10'))",
        "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))",
        "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "semver('1.2.3').compareTo(semver('1.2.3+build')) == 0 && semver('v01.2', true) == semver('1.2.0')",
        "!isSemver('v1.2.3') && isSemver('v1', true) && !isSemver('1.2') && !isSemver('1.2.3-') && !isSemver('01.2.3')",
        # URLs
        "url('https://u:p@a.b:80/p%20q?x=1&x=2').getHost() == 'a.b:80' && url('https://a.b').getPort() == ''",
        "url('http://[::1]:80').getHostname() == '::1' && url('/a?q').getQuery() == {'q': ['']}",
        "url('HTTPS://a/ä b').getEscapedPath() == '/%C3%A4%20b' && url('HTTPS://a').getScheme() == 'https'",
        "!isURL('x') && !isURL('') && !isURL('http://a b') && !isURL('http://a:x') && isURL('/') && isURL('a:b')",
        "!isURL('http://a/%zz') && url('http://a') == url('http://a') && url('mailto:a@b').getEscapedPath() == ''",
        # addresses
        "ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified()",
        "ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('fe80::1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && ip('10.0.0.1').isGlobalUnicast() && string(ip('::0')) == '::'",
        "ip.isCanonical('::1') && !ip.isCanonical('0::1') && type(ip('1.1.1.1')) == net.IP",
        "!isIP('1.2.3') && !isIP('01.2.3.4') && !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4')",
        "cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.1/8').ip() == ip('10.0.0.1')",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && !cidr('10.0.0.0/8').containsIP('11.1.1.1')",
        "cidr('::/0').containsCIDR('::1/128') && !cidr('10.0.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "!isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33')",
        "!isCIDR('10.0.0.0/08') && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        # named formats
        "format.dns1123Subdomain().validate('a.b') == optional.none()",
        "format.uri().validate('http://a') == optional.none()",
        "format.dns1035Label().validate('1a').hasValue() && format.qualifiedName().validate('a/b/c').hasValue()",
        "format.named('date').value().validate('2024-13-01').value() == ['invalid date']",
        "!format.named('x').hasValue()",
        "format.uuid() == format.named('uuid').value() && format.uuid() != format.byte()",
        "format.dns1123LabelPrefix().validate('abc-') == optional.none()",
        "format.dns1123Label().validate('abc-').hasValue()",
    ],
)
def test_libraries_by_examples(text: str) -> None:
    """Each of these is true."""
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("quantity('x')", "quantities must match the regular expression"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("semver('')", "Version string empty"),
        ("semver('1.2')", "No Major.Minor.Patch elements found"),
        ("semver('1.02.3')", 'Minor number must not contain leading zeroes "02"'),
        ("semver('a.2.3')", 'Invalid character(s) found in major number "a"'),
        ("url('')", 'URL parse error during conversion from string: parse "": empty url'),
        ("url('http://a:b')", 'parse "http://a:b": invalid port ":b" after host'),
        ("ip('1.2.3')", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("ip('1.2.3.4.5')", "IPv4 address too long"),
        ("ip('256.1.1.1')", "IPv4 field has value >255"),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        (
            "cidr('1.2.3.4')",
            "network address parse error during conversion from string: netip.ParsePrefix(\"1.2.3.4\"): no '/'",
        ),
        ("cidr('10.0.0.0/33')", "prefix length out of range"),
        ("[1, 2].map(i, i == 1 ? 9223372036854775807 : 1).sum()", "integer overflow"),
    ],
)
def test_what_cannot_be_parsed_says_why(text: str, error: str) -> None:
    """Errors are those of the server's own parsers."""
    with pytest.raises(CelEvaluationError) as caught:
        value(text)
    assert error in str(caught.value)


LONG = "9" * 10_000


@pytest.mark.parametrize(
    "text", [LONG, f"{LONG}h", f"1.0.0-{LONG}", f"{LONG}.{LONG}.{LONG}", f"10.0.0.0/{LONG}", f"+{LONG}:00"]
)
def test_no_number_is_too_long(text: str) -> None:
    """Thousands of digits are a very large number or not a number; they never crash."""
    for parse in ("duration", "quantity", "semver", "ip", "cidr", "int", "uint", "double", "url", "timestamp"):
        ENVIRONMENT.compile(f"dyn({parse}(s)) == 1").run({"s": text})
    ENVIRONMENT.compile("timestamp(0).getHours(s) == 1").run({"s": text})
    assert ENVIRONMENT.compile("semver('1.0.0-2').isLessThan(semver(s))").run({"s": f"1.0.0-{LONG}"}).value is True


NUMBERS = st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=3)


@given(NUMBERS, NUMBERS)
def test_quantities_add_up(one: Decimal, other: Decimal) -> None:
    """Arithmetic and order of quantities are those of numbers."""
    texts = {"s": format(one, "f"), "t": format(other, "f")}
    total = ENVIRONMENT.compile("quantity(s).add(quantity(t)).asApproximateFloat()").evaluate(texts)
    assert total == float(one + other)
    assert value("quantity(s).compareTo(quantity(t))", **texts) == (one > other) - (one < other)
    assert value("quantity(s).sub(quantity(t)).add(quantity(t)) == quantity(s)", **texts) is True


@given(st.ip_addresses())
def test_addresses_survive_their_texts(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """An address is canonical as Python writes it, and in the networks that Python puts it in."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return
    assert value("string(ip(s)) == s && ip.isCanonical(s) && ip(s).family() == i", s=str(address), i=address.version)
    network = ipaddress.ip_network(f"{address}/{address.max_prefixlen // 2}", strict=False)
    assert value("cidr(t).containsIP(s) && cidr(t).masked() == cidr(t)", s=str(address), t=str(network))


@pytest.mark.slow
@given(st.text(max_size=20))
def test_no_text_breaks_a_parser(text: str) -> None:
    """Every text is a quantity, version, URL, address, network, duration and time, or is not."""
    tests = ("isQuantity", "isSemver", "isURL", "isIP", "isCIDR")
    for test, parse in zip(tests, ("quantity", "semver", "url", "ip", "cidr"), strict=True):
        good = value(f"{test}(s)", s=text)
        outcome = ENVIRONMENT.compile(f"type({parse}(s)) == type({parse}(s))").run({"s": text})
        assert (outcome.error is None) is good
    for parse in ("duration", "timestamp", "int", "uint", "double", "bool"):
        ENVIRONMENT.compile(
            f"type({parse}(s)) == {parse if parse in ('int', 'uint', 'double', 'bool') else 'int'}"
        ).run({"s": text})
