"""Certificates of webhook servers: what is issued, what the Secret holds, and what is wrong with it."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from opsdk.errors import ConfigError, UsageError
from opsdk.webhook.certificates import issuing
from opsdk.webhook.certificates.bundle import CertificateBundle, bundle_from_secret, serving_fault
from opsdk.webhook.certificates.issuing import CertificateKeyPair, create_authority, issue_serving, names_of
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import RotationStep, advance

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = SelfSigned(service="hooks", namespace="demo", dns_names=("Localhost", "127.0.0.1"))
NAMES = OPTIONS.server_names()
DAY = timedelta(days=1)


def new_bundle(now: datetime = NOW) -> CertificateBundle:
    """A first bundle."""
    return advance(None, RotationStep.CREATE, OPTIONS, now)


def in_rotation() -> CertificateBundle:
    """A bundle with three CAs: an old one, the one that signs, and the next one."""
    added = advance(new_bundle(), RotationStep.ADD_NEXT_CA, OPTIONS, NOW)
    switched = advance(added, RotationStep.SWITCH_CA, OPTIONS, NOW)
    return replace(switched, next_authority=create_authority(NOW, 1e6))


def test_an_independent_verifier_accepts_the_certificate() -> None:
    """The rules of the web's PKI hold for each name, at each time of its validity, and not a second longer."""
    bundle = new_bundle()
    certificate = x509.load_pem_x509_certificate(bundle.serving.cert)
    store = Store(x509.load_pem_x509_certificates(bundle.trusted))
    for seconds in (0, OPTIONS.validity - 1):
        policy = PolicyBuilder().store(store).time(NOW + timedelta(seconds=seconds))
        for name in ("hooks.demo.svc", "localhost"):
            assert len(policy.build_server_verifier(x509.DNSName(name)).verify(certificate, [])) == 2
    late = PolicyBuilder().store(store).time(NOW + timedelta(seconds=OPTIONS.validity + 1))
    with pytest.raises(x509.verification.VerificationError):
        late.build_server_verifier(x509.DNSName("hooks.demo.svc")).verify(certificate, [])


def test_a_certificate_does_not_outlive_its_ca() -> None:
    """A certificate expires no later than its CA."""
    authority = create_authority(NOW, 1000)
    certificate = x509.load_pem_x509_certificate(issue_serving(authority, ("a",), NOW, 5000).cert)
    assert certificate.not_valid_after_utc == NOW + timedelta(seconds=1000)
    assert names_of(certificate) == {"a"}


@pytest.mark.parametrize("bundle", [new_bundle(), in_rotation()], ids=["settled", "in rotation"])
def test_the_secret_holds_the_whole_bundle(bundle: CertificateBundle) -> None:
    """Writing and reading again gives an equal bundle; keys are not in its repr."""
    assert bundle_from_secret(bundle.to_secret_data()) == bundle
    assert "PRIVATE KEY" not in repr(bundle)


@pytest.mark.parametrize(
    ("entry", "content", "message"),
    [
        ("ca.crt", b"", r"ca\.crt: not PEM certificates"),
        ("ca.crt", b"\x00\xff", r"ca\.crt: not PEM certificates"),
        ("ca.crt", new_bundle().serving.cert, r"ca\.crt contains a certificate that is not a CA certificate"),
        ("ca.key", b"", r"ca\.key: not a PEM private key"),
        ("ca.key", new_bundle().authority.key, r"ca\.key does not match a certificate"),
        ("next-ca.key", b"", r"next-ca\.key: not a PEM private key"),
        ("next-ca.key", new_bundle().authority.key, r"next-ca\.key does not match"),
        ("ca.crt", in_rotation().trusted, r"ca\.key does not match a certificate"),
    ],
)
def test_unusable_cas_are_an_error_that_names_the_entry(entry: str, content: bytes, message: str) -> None:
    """An unusable CA or key is an error that names the entry of the Secret."""
    with pytest.raises(ConfigError, match=message):
        bundle_from_secret({**in_rotation().to_secret_data(), entry: content})


def test_a_certificate_that_must_not_be_served_has_a_reason() -> None:
    """Each fault is found, and a good certificate has none."""
    bundle, other = new_bundle(), new_bundle()
    assert serving_fault(bundle, NAMES, NOW) == ""

    def fault(cert: bytes = bundle.serving.cert, key: bytes = bundle.serving.key, now: datetime = NOW) -> str:
        return serving_fault(replace(bundle, serving=CertificateKeyPair(cert, key)), NAMES, now)

    assert "does not parse" in fault(cert=b"junk")
    assert "does not parse" in fault(key=b"")
    assert "does not match" in fault(key=other.serving.key)
    assert "not signed by a CA" in fault(other.serving.cert, other.serving.key)
    assert "has expired" in fault(now=NOW + 90 * DAY)
    assert "check the clock" in fault(now=NOW - DAY)
    assert "lacks the names extra" in serving_fault(bundle, (*NAMES, "extra"), NOW)
    assert serving_fault(bundle, NAMES[:1], NOW) == ""


def test_options_name_what_does_not_fit() -> None:
    """A mistake is found before anything runs."""
    for fields, message in (
        ({}, "either service"),
        ({"service": "a", "url": "https://b"}, "either service"),
        ({"url": "https://b"}, "secret_name"),
        ({"url": "http://b", "secret_name": "s"}, "is not a URL"),
        ({"service": "a", "renew_before": 1e9}, "renew_before"),
        ({"service": "a", "ca_validity": 1e7}, "ca_validity"),
        ({"service": "a", "check_interval": 300.0}, "overlap is 600"),
        ({"service": "a", "overlap": 2e6}, "twice overlap"),
    ):
        with pytest.raises(UsageError, match=message):
            SelfSigned(**fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no namespace"):
        SelfSigned(service="a").client_config()


def test_a_server_outside_the_cluster_has_the_name_of_its_url() -> None:
    """The API server verifies host or address of the URL."""
    options = SelfSigned(url="https://[::1]:9443", secret_name="s", namespace="demo")
    assert options.server_names() == ("::1",)
    assert options.client_config().url == "https://[::1]:9443"
    bundle = advance(None, RotationStep.CREATE, options, NOW)
    assert serving_fault(bundle, ("::1",), NOW) == ""


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import without the extra raises an error that names it."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, issuing.__name__)
    with pytest.raises(ConfigError, match=r"opsdk\[tls\]"):
        importlib.import_module(issuing.__name__)
