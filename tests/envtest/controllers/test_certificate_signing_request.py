"""Laws of `envtest.controllers.certificate_signing_request`."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from envtest.controllers.certificate_signing_request import RequestedCertificate, refusal
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import Kubectl, condition, settle

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = f"{CLIENT}-kubelet"


def asked(name: str, *groups: str, dns: str = "") -> bytes:
    """A request (PEM)."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    created = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return created.public_bytes(serialization.Encoding.PEM)


def request(name: str, pem: bytes, *, signer: str = CLIENT, **spec: Any) -> JsonObject:
    """A CertificateSigningRequest."""
    inner = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"], **spec}
    meta = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
    return {**meta, "spec": inner}


async def _approve(api: Kubectl, name: str) -> None:
    signing_request = await api.get(f"{REQUESTS}/{name}")
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}
    signing_request["status"] = {"conditions": [approved]}
    await api.send("PUT", f"{REQUESTS}/{name}/approval", signing_request)


async def test_approved_requests_are_signed() -> None:
    """A request is signed after its approval, with the subject and lifetime that it asks for."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(REQUESTS, request("alice", asked("alice", "devs"), expirationSeconds=600))
        await settle()
        assert "certificate" not in (await api.get(f"{REQUESTS}/alice"))["status"]
        await _approve(api, "alice")
        await settle()
        pem = base64.b64decode((await api.get(f"{REQUESTS}/alice"))["status"]["certificate"])
        created = x509.load_pem_x509_certificate(pem)
        created.verify_directly_issued_by(x509.load_pem_x509_certificate(env.authority.pair.cert))
        assert [a.value for a in created.subject] == ["devs", "alice"]
        usages = created.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        await settle(3700)
        assert await api.names(REQUESTS) == []


async def test_an_invalid_request_fails_and_foreign_signers_are_ignored() -> None:
    """An approved request that its signer rejects fails with a reason; requests for other signers stay unchanged."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(REQUESTS, request("a", asked("a"), usages=["client auth", "server auth"]))
        await api.create(REQUESTS, request("b", asked("b"), signer="example.com/mine"))
        await settle()
        for name in "ab":
            await _approve(api, name)
        await settle()
        assert condition(await api.get(f"{REQUESTS}/a"), "Failed")["reason"] == "SignerValidationFailure"
        assert (await api.get(f"{REQUESTS}/b"))["status"].keys() == {"conditions"}


async def test_node_requests_are_approved() -> None:
    """A kubelet's valid client request is approved and signed; another user's is not."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(REQUESTS, request("node", asked("system:node:n2", "system:nodes"), signer=KUBELET))
        await api.create(REQUESTS, request("other", asked("mallory", "system:nodes"), signer=KUBELET))
        await settle()
        signing_request = await api.get(f"{REQUESTS}/node")
        assert condition(signing_request, "Approved")["reason"] == "AutoApproved"
        assert signing_request["status"]["certificate"]
        assert not (await api.get(f"{REQUESTS}/other")).get("status", {}).get("conditions")
        await settle(25 * 3600)
        assert await api.names(REQUESTS) == [], "what nobody decides is forgotten after a day"


@pytest.mark.parametrize(
    ("signer", "found", "usages", "fine"),
    [
        (CLIENT, RequestedCertificate("a"), ["client auth"], True),
        (CLIENT, RequestedCertificate("a"), ["digital signature"], False),
        (KUBELET, RequestedCertificate("system:node:n", ("system:nodes",)), ["client auth"], True),
        (KUBELET, RequestedCertificate("n", ("system:nodes",)), ["client auth"], False),
        (KUBELET, RequestedCertificate("system:node:n", ("system:nodes",), ("n",)), ["client auth"], False),
        (
            "kubernetes.io/kubelet-serving",
            RequestedCertificate("system:node:n", ("system:nodes",), ("n",)),
            ["server auth"],
            True,
        ),
        (
            "kubernetes.io/kubelet-serving",
            RequestedCertificate("system:node:n", ("system:nodes",)),
            ["server auth"],
            False,
        ),
    ],
)
def test_each_signer_validates_subject_names_and_usages(
    signer: str, found: RequestedCertificate, usages: list[str], fine: bool
) -> None:
    """Each built-in signer has its own rules for subjects, alternative names and usages."""
    assert (refusal(signer, found, usages) == "") == fine


def test_reads_requests() -> None:
    """Subject and names are read out of the request."""
    assert RequestedCertificate.read(asked("a", "g", "h", dns="x.example.com")) == RequestedCertificate(
        "a", ("g", "h"), ("x.example.com",)
    )
