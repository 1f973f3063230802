"""Signing keys of tokens: verification, formats and publication."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt import get_unverified_header
from jwt.utils import base64url_encode

from opsdk.apiserver.auth.jwt import SigningKey
from opsdk.apiserver.auth.signing_keys import PrivateKey, read_private, read_public
from opsdk.errors import ConfigError, UnauthorizedError

SORTS = {"RS256": (), "ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
each_sort = pytest.mark.parametrize("sort", sorted(SORTS))


@cache
def key(sort: str, number: int = 0) -> PrivateKey:
    """A key of a sort; others by other numbers."""
    assert number >= 0
    curve: Any = SORTS[sort]
    created = (
        ec.generate_private_key(curve) if curve else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    return PrivateKey(created)


def private_pem(made: Any) -> bytes:
    """As files have it."""
    raw: bytes = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return raw


def public_pem(made: Any) -> bytes:
    """As files have it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    raw: bytes = made.public_key().public_bytes(serialization.Encoding.PEM, form)
    return raw


def certificate(made: Any) -> bytes:
    """One that the key signed for itself."""
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sa-signer")]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(made.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(made, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@each_sort
@given(text=st.binary(max_size=200), other=st.binary(max_size=200))
def test_a_signature_is_of_one_text_and_one_key(sort: str, text: bytes, other: bytes) -> None:
    """A signature verifies only with its text, its key and its algorithm."""
    token, strange = key(sort).sign(text), key(sort).sign(other)
    assert key(sort).public.payload(token) == text
    swapped = f"{token.rpartition('.')[0]}.{strange.rpartition('.')[2]}"
    assert (key(sort).public.payload(swapped) == text) == (text == other)
    for stranger in (key(sort, 1), *(key(s) for s in SORTS if s != sort)):
        assert stranger.public.payload(token) is None


@each_sort
@given(st.binary(max_size=150))
def test_random_bytes_are_no_signature(sort: str, signature: bytes) -> None:
    """Random bytes never verify, and verification never raises."""
    signed = key(sort).sign(b"text").rpartition(".")[0]
    assert key(sort).public.payload(f"{signed}.{base64url_encode(signature).decode()}") is None


@pytest.mark.parametrize("bits", [1024, 2048])
def test_short_keys_are_taken(bits: int) -> None:
    """RSA keys have no minimum size, as in kube-apiserver."""
    short = PrivateKey(rsa.generate_private_key(public_exponent=65537, key_size=bits))
    assert short.public.payload(short.sign(b"text")) == b"text"


@each_sort
def test_tokens_name_the_key_and_its_algorithm(sort: str, tmp_path: Path) -> None:
    """A token names its key and algorithm, and is invalid without them."""
    path = tmp_path / "key.pem"
    path.write_bytes(private_pem(key(sort).key))
    signing_key = SigningKey(path)
    token = signing_key.sign({"a": 1})
    assert get_unverified_header(token) == {"alg": sort, "kid": signing_key.key_id}
    assert signing_key.verify(token) == {"a": 1}
    assert signing_key.algorithm == sort
    other = key(next(s for s in SORTS if s != sort))
    (tmp_path / "other.pem").write_bytes(private_pem(other.key))
    with pytest.raises(UnauthorizedError):
        SigningKey(tmp_path / "other.pem").verify(token)


@each_sort
@pytest.mark.parametrize("form", [private_pem, public_pem, certificate])
def test_more_keys_are_read_in_every_form(sort: str, form: Any, tmp_path: Path) -> None:
    """Tokens of additional verification keys are valid, and these keys are published."""
    (tmp_path / "more.pem").write_bytes(
        b"# a comment\n" + form(key(sort, 2).key) + b"\n" + public_pem(key(sort, 3).key)
    )
    for number in (2, 3):
        (tmp_path / f"{number}.pem").write_bytes(private_pem(key(sort, number).key))
    signing_key = SigningKey(tmp_path / "mine.pem", also=[tmp_path / "more.pem"])
    for number in (2, 3):
        token = SigningKey(tmp_path / f"{number}.pem").sign({"n": number})
        assert signing_key.verify(token) == {"n": number}
    assert not (tmp_path / "mine.pem").exists()
    key_ids = [k["kid"] for k in signing_key.public()]
    assert key_ids == [signing_key.key_id, key(sort, 2).public.key_id, key(sort, 3).public.key_id]


def test_a_key_is_shown_once(tmp_path: Path) -> None:
    """The signing key is published once, even if it is also a verification key."""
    path = tmp_path / "key.pem"
    path.write_bytes(private_pem(key("ES256").key))
    result = SigningKey(path, also=[path]).public()
    assert [set(k) for k in result] == [{"use", "kid", "alg", "kty", "crv", "x", "y"}]
    assert (result[0]["kty"], result[0]["crv"]) == ("EC", "P-256")


def test_files_without_a_usable_key_say_so(tmp_path: Path) -> None:
    """A file without a usable key is an error with the file's name."""
    odd = ed25519.Ed25519PrivateKey.generate()
    path = tmp_path / "odd.pem"
    raw = odd.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(raw)
    for read in (read_private, read_public):
        with pytest.raises(ConfigError, match=r"odd.pem is neither an RSA key nor"):
            read(path)
    path.write_bytes(private_pem(ec.generate_private_key(ec.SECP256K1())))
    with pytest.raises(ConfigError, match="neither"):
        read_public(path)
    path.write_bytes(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(ConfigError, match=r"cannot read a key of .*odd.pem"):
        read_public(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="holds no key"):
        read_public(path)
    with pytest.raises(ConfigError, match="cannot read the key"):
        read_public(tmp_path / "none")
