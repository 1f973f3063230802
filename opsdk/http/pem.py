"""Splits PEM text into its blocks, in linear time. Pure.

Upstream: encoding/pem/pem.go (Go 1.25), whose ``Decode`` continues after a block without an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_BEGIN: Final = b"-----BEGIN "
_END: Final = b"-----END "
_DASHES: Final = b"-----"
_CERTIFICATES: Final = frozenset({"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"})
"""What OpenSSL reads as a certificate."""


class PemBlock(NamedTuple):
    """One block: the word of its first line, the lines between, and the whole text."""

    kind: str
    content: bytes
    text: bytes


def pem_blocks(text: bytes) -> Iterator[PemBlock]:
    r"""Yield the blocks of `text` in order. A block whose last line names another kind is skipped.

    >>> [block.kind for block in pem_blocks(b"-----BEGIN A B-----\nYQ==\n-----END A B-----\n")]
    ['A B']
    """
    begin = text.find(_BEGIN)
    while begin >= 0:
        line_end = text.find(b"\n", begin)
        end = text.find(_END, line_end) if line_end >= 0 else -1
        if end < 0:
            return
        word = text[begin + len(_BEGIN) : line_end].rstrip(b"\r")
        last = b"%b%b" % (_END, word)
        after = end + len(last)
        if word.endswith(_DASHES) and word.isascii() and text.startswith(last, end):
            yield PemBlock(word[: -len(_DASHES)].decode(), text[line_end + 1 : end], text[begin:after] + b"\n")
        else:
            after = end + len(_END)
        begin = text.find(_BEGIN, after)


def without_comments(text: bytes) -> bytes:
    r"""Return the blocks of `text`. Bundles have comments in any encoding, and some begin with a byte order mark.

    >>> without_comments(b"\xef\xbb\xbf-----BEGIN A-----\nYQ==\n-----END A-----\n# K\xf6ln\n")
    b'-----BEGIN A-----\nYQ==\n-----END A-----\n'
    """
    return b"".join(block.text for block in pem_blocks(text))


def certificates_of(bundle: bytes) -> str:
    """Return the certificates of a bundle, for ``SSLContext.load_verify_locations(cadata=...)``; other text is ignored.

    Raises `ValueError` if there is no certificate.
    """
    certificates = b"".join(block.text for block in pem_blocks(bundle) if block.kind in _CERTIFICATES)
    if not certificates:
        raise ValueError("no PEM certificate")
    return certificates.decode("ascii")
