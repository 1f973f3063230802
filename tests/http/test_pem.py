"""PEM text with other text around its blocks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.plane.certificates import Authority
from envtest.plane.pki import read_authority
from opsdk.apiserver.webhook_client.connection_pools import trusting
from opsdk.errors import ConfigError
from opsdk.http.pem import without_comments
from opsdk.http.server.server import Tls
from opsdk.http.server.serving_certificate import server_context
from opsdk.rest.config import RestConfig
from opsdk.rest.tls import TlsContexts

BLOCK = b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
BUNDLES = {
    "comment": lambda cert: "# Öffentliche CA\n".encode() + cert,
    "latin": lambda cert: b"# \xd6\n" + cert + b"# \xe9\n",
    "byte order mark": lambda cert: b"\xef\xbb\xbf" + cert,
    "carriage returns": lambda cert: b"\xef\xbb\xbf# \xe9\r\n" + cert.replace(b"\n", b"\r\n"),
    "several": lambda cert: b"\xc3\xb6\n" + cert + b"\n\xff\n" + cert,
}


@given(st.lists(st.binary(max_size=20).filter(lambda text: b"-" not in text), min_size=1, max_size=5))
def test_text_around_blocks_is_ignored(between: list[bytes]) -> None:
    """Bytes before, between and after the blocks change nothing."""
    text = between[0] + b"".join(BLOCK + b"\n" + part for part in between[1:])
    assert without_comments(text) == BLOCK * (len(between) - 1)


@pytest.fixture(scope="module")
def authority() -> Authority:
    """A CA."""
    return Authority.load_or_create(None)


@pytest.mark.parametrize("name", BUNDLES)
async def test_a_bundle_with_comments_is_trusted(authority: Authority, name: str) -> None:
    """Clients of the operator and of the local server's webhooks take the certificates of any bundle."""
    bundle = BUNDLES[name](authority.pair.cert)
    for context in (
        TlsContexts(RestConfig(host="https://a", ca_data=bundle), on_change=lambda: None).context(),
        trusting(bundle),
    ):
        assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("name", BUNDLES)
def test_servers_take_any_bundle_of_client_authorities(authority: Authority, tmp_path: Path, name: str) -> None:
    """Both kinds of servers trust the certificates of a bundle, and a damaged one is an error that names the file."""
    cert, key = authority.serving("localhost").write(tmp_path, "serving")
    bundle = tmp_path / "clients.crt"
    optional = Tls(cert_file=cert, key_file=key, client_ca_file=bundle)
    for build in (optional.context, partial(server_context, cert, key, client_ca_file=bundle)):
        bundle.write_bytes(BUNDLES[name](authority.pair.cert))
        assert len(build().get_ca_certs()) == 1
        assert not read_authority(bundle).replace(b"\r", b"").replace(authority.pair.cert, b"")
        bundle.write_bytes(BUNDLES[name](b""))
        with pytest.raises(ConfigError, match=r"cannot load .*clients\.crt: no PEM certificate"):
            build()


@pytest.mark.parametrize("name", BUNDLES)
async def test_a_client_certificate_with_comments_is_used(authority: Authority, name: str) -> None:
    """Certificate and key may have other text around them too."""
    key = authority.pair.key if name == "several" else BUNDLES[name](authority.pair.key)
    data = {"client_cert_data": BUNDLES[name](authority.pair.cert), "client_key_data": key}
    assert TlsContexts(RestConfig(host="https://a", **data), on_change=lambda: None).context() is not None


@pytest.mark.parametrize("bundle", [b"no certificate", b"\xef\xbb\xbf", BLOCK[:-5], BLOCK])
async def test_a_bundle_without_certificates_is_refused(bundle: bytes) -> None:
    """An empty or damaged bundle is an error, not an empty trust."""
    contexts = TlsContexts(RestConfig(host="https://a", ca_data=bundle), on_change=lambda: None)
    with pytest.raises(ConfigError, match="not PEM certificates"):
        contexts.refresh()
