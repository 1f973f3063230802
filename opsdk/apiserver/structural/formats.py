"""String formats that schemas may ask for; unknown ones are not checked."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

_UUID: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_ANY4: Final = "[0-9a-f]{4}"


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """A day, as in RFC 3339."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def is_date_time(text: str) -> bool:
    """A moment with its time zone, as in RFC 3339."""
    date, _, time = text.lower().partition("t")
    found = _TIME.fullmatch(time)
    if found is None or not is_date(date):
        return False
    return int(found[1]) < 24 and int(found[2]) < 60 and int(found[3]) < 60


_GO_DURATION: Final = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
_WORDS: Final = (
    "nanoseconds? nanos? ns microseconds? micros? us µs milliseconds? millis? ms seconds? secs? s minutes? mins? m "
    "hours? hrs? h days? d weeks? wks? w"
)
_WORD_DURATION: Final = re.compile(rf"(?i)\s*(?:[0-9]+\s*(?:{'|'.join(_WORDS.split())})\s*)+")


def is_duration(text: str) -> bool:
    """A duration of Go (``1h30m``) or in words (``2 days``)."""
    return bool(_GO_DURATION.fullmatch(text) or _WORD_DURATION.fullmatch(text))


def _is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version and "%" not in text
        except ValueError:
            return False

    return check


def is_cidr(text: str) -> bool:
    """An address and the length of its prefix."""
    address, slash, bits = text.partition("/")
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(slash) and bits.isdecimal() and "%" not in address


def is_uri(text: str) -> bool:
    """An absolute URI, or an absolute path."""
    if not text or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def is_byte(text: str) -> bool:
    """Base64 with padding."""
    try:
        return bool(text) and base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


_LABEL: Final = r"[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?"
_HOSTNAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")


def is_hostname(text: str) -> bool:
    """A DNS name."""
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None


_MAC: Final = re.compile(
    r"(?i)[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?"
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4}|(?:\.[0-9a-f]{4}){7})?"
)


def _digits(text: str) -> str:
    return re.sub(r"[\s-]", "", text)


def is_isbn10(text: str) -> bool:
    """An ISBN of ten digits, whose checksum is right."""
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{9}[0-9Xx]", digits):
        return False
    values = [10 if digit in "Xx" else int(digit) for digit in digits]
    return sum((10 - at) * value for at, value in enumerate(values)) % 11 == 0


def is_isbn13(text: str) -> bool:
    """An ISBN of thirteen digits, whose checksum is right."""
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(digits)) % 10 == 0


def is_credit_card(text: str) -> bool:
    """A card number, whose checksum is right."""
    digits = re.sub(r"[^0-9]+", "", text)
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_COLOR: Final = r"(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
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
    "email": _matches(rf"{_ATOM}(?:\.{_ATOM})*@[^\s@]+"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8s-long-name": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*", text) is not None
    ),
    "k8s-short-name": _matches(_SHORT_NAME),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda _: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "ssn": _matches(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": is_uri,
    "uuid": _matches(_UUID % (_ANY4, _ANY4)),
    "uuid3": _matches(_UUID % ("3[0-9a-f]{3}", _ANY4)),
    "uuid4": _matches(_UUID % ("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    "uuid5": _matches(_UUID % ("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
}
"""By name: whether a string has the format."""

_STRINGS: Final = frozenset(name.replace("-", "") for name in FORMATS)
_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_known(name: str, kind: str) -> bool:
    """Whether values of a type can have a format; in those of strings, and where there is no type, dashes are nothing.

    >>> is_known("date-time", "string"), is_known("int64", "integer"), is_known("int64", "string")
    (True, True, False)
    """
    return name.replace("-", "") in _STRINGS if kind in ("", "string") else name in _NUMBERS.get(kind, ())
