"""String formats of OpenAPI schemas; the validation ignores unknown formats.

Upstream: k8s.io/kube-openapi/pkg/validation/strfmt (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import calendar
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

from opsdk.cel.regex import compile_regex

_UUID: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_ANY4: Final = "[0-9a-f]{4}"


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Report whether the text is an RFC 3339 full-date."""
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # `calendar` starts at year 1; the Gregorian calendar repeats every 400 years.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year + 400, month)[1]


# The time of day up to the fraction.
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def is_date_time(text: str) -> bool:
    """Report whether the text is an RFC 3339 date-time."""
    date, _, time = text.lower().partition("t")
    match = _TIME.fullmatch(time)
    if match is None or not is_date(date):
        return False
    return int(match[1]) < 24 and int(match[2]) < 60 and int(match[3]) < 60


_GO_DURATION: Final = re.compile(r"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
# A match begins at the first digit of a number; otherwise each digit of a long number starts a scan.
WORD_DURATION: Final = re.compile(r"(?<![0-9])([0-9]++)[\t\n\f\r ]*+([A-Za-zµ]++)")
"""A number with a unit, somewhere in a string."""
_UNITS: Final = frozenset(["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"])
_INT64_DIGITS: Final = 19
_LONG_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def is_duration(text: str) -> bool:
    """Report whether the text is a Go duration (``1h30m``) or contains a number with a unit (``in 2 days``)."""
    if _GO_DURATION.fullmatch(text):
        return True
    parts = WORD_DURATION.findall(text)
    units = [unit.lower() for _, unit in parts]
    has_unit = any(unit in _UNITS or unit.startswith(_LONG_UNITS) for unit in units)
    numbers = [number.lstrip("0") or "0" for number, _ in parts]
    return has_unit and all(len(number) <= _INT64_DIGITS and int(number) < 2**63 for number in numbers)


_SLOPPY: Final = re.compile(r"\b0+(?=[0-9])")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; leading zeros in IPv4 parts are allowed."""
    head, colon, quad = text.rpartition(":")
    try:
        return ipaddress.ip_address(head + colon + (_SLOPPY.sub("", quad) if "." in quad else quad))
    except ValueError:
        return None


def is_ipv4(text: str) -> bool:
    """Report whether the text is an address with dots: IPv4, or IPv6 with an embedded IPv4 address."""
    return "." in text and "%" not in text and _address(text) is not None


def is_ipv6(text: str) -> bool:
    """Report whether the text is an IPv6 address."""
    return ":" in text and "%" not in text and _address(text) is not None


def is_cidr(text: str) -> bool:
    """Report whether the text is an address with a prefix length."""
    head, _, bits = text.partition("/")
    address = _address(head) if "%" not in head else None
    return address is not None and re.fullmatch(r"[0-9]+", bits) is not None and int(bits) <= address.max_prefixlen


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY: Final = re.compile(
    r"(?:[A-Za-z0-9._:~!$&'()*+,;=%-]*@)?"
    r"(?:\[(?:[^%\]]|%[0-9a-fA-F]{2})*\]|(?:[^\x00-\x7f]|[A-Za-z0-9._~!$&'()*+,;=<>\"-]|%[89a-fA-F][0-9a-fA-F])*?)"
    r"(?::[0-9]*)?"
)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


def is_uri(text: str) -> bool:
    """Report whether the text is an absolute URI, an absolute path or ``*``."""
    if not text or any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return False
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() if scheme else 0 :].partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None or text == "*"
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _AUTHORITY.fullmatch(authority) is not None and not _BAD_ESCAPE.search(slash + path)
    return not _BAD_ESCAPE.search(rest)


def is_byte(text: str) -> bool:
    """Report whether the text is non-empty base64 with padding."""
    try:
        return bool(text) and len(text) % 4 == 0 and base64.b64decode(text, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


_NAME: Final = r"a-zA-Z0-9\p{S}\p{L}"
_HOSTNAME: Final = (
    rf"^(?:[{_NAME}](?:-?[{_NAME}]{{0,62}})?|(?:[{_NAME}](?:[-{_NAME}]{{0,61}}[{_NAME}])?\.)+[a-zA-Z\p{{L}}]{{2,63}})$"
)


def is_hostname(text: str) -> bool:
    """Report whether the text is a DNS name that ends in letters; a single label may have a dash as second letter."""
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in text.split(".")):
        return False
    return compile_regex(_HOSTNAME).search(text) is not None


_MAC: Final = re.compile(
    r"(?i)[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?"
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4}|(?:\.[0-9a-f]{4}){7})?"
    r"|[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{40}"
)


def is_isbn10(text: str) -> bool:
    """Report whether the text is an ISBN-10 with a valid checksum."""
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((10 - position) * value for position, value in enumerate(values)) % 11 == 0


def is_isbn13(text: str) -> bool:
    """Report whether the text is an ISBN-13 with a valid checksum."""
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if position % 2 else 1) for position, digit in enumerate(digits)) % 10 == 0


_CARDS: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)


def is_credit_card(text: str) -> bool:
    """Report whether the text is a card number of a known issuer with a valid checksum."""
    digits = re.sub(r"[^0-9]+", "", text)
    doubled = [int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits))]
    good = sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0
    return good and _CARDS.fullmatch(digits) is not None


_COLOR: Final = r"(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
_ATOM: Final = r"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[^\x00-\x7f])+"
_DOTTED: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED: Final = r'"(?:[^"\\\r\n]|\\.)*"'
_SPEC: Final = rf"(?:{_DOTTED}|{_QUOTED})@(?:{_DOTTED}|\[[0-9A-Fa-f.:]+\])"
_COMMENT: Final = r"\((?:[^()\\]|\\.)*\)"
_PHRASE: Final = rf"(?:(?:{_DOTTED}|{_QUOTED})[ \t]*)*"
_EMAIL: Final = rf"^[ \t]*(?:{_SPEC}|{_PHRASE}<[ \t]*{_SPEC}[ \t]*>)[ \t]*(?:{_COMMENT}[ \t]*)*$"


def is_email(text: str) -> bool:
    """Report whether the text is an RFC 5322 address, optionally with a display name and comments."""
    return compile_regex(_EMAIL).search(text) is not None


_LONG_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SHORT_NAME: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"

FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "byte": is_byte,
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "date-time": is_date_time,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8s-long-name": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_LONG_LABEL}(?:\.{_LONG_LABEL})*", text) is not None
    ),
    "k8s-short-name": _matches(_SHORT_NAME),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda _: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "ssn": _matches(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": is_uri,
    "uuid": _matches(_UUID % (_ANY4, _ANY4)),
    "uuid3": _matches(_UUID % ("3[0-9a-f]{3}", _ANY4)),
    "uuid4": _matches(_UUID % ("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    "uuid5": _matches(_UUID % ("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
}
"""The validators by format name."""

_STRINGS: Final = frozenset(name.replace("-", "") for name in FORMATS)
_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_known(name: str, kind: str) -> bool:
    """Report whether a format applies to a type; string formats are compared without dashes.

    >>> is_known("date-time", "string"), is_known("int64", "integer"), is_known("int64", "string")
    (True, True, False)
    """
    return name.replace("-", "") in _STRINGS if kind in ("", "string") else name in _NUMBERS.get(kind, ())
