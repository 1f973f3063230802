"""CertificateSigningRequests: requestors, approval, signers."""

from __future__ import annotations

import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENTS = "kubernetes.io/kube-apiserver-client"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def request(name: str, organization: str = "devs", signer: str = CLIENTS, **spec: Any) -> JsonObject:
    """A request for a certificate."""
    parts = [(NameOID.COMMON_NAME, "alice"), (NameOID.ORGANIZATION_NAME, organization)]
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    expected = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"name": name}, "spec": {**expected, **spec}}


def approved(status: str = "True") -> JsonObject:
    """A patch that approves."""
    return {"status": {"conditions": [{"type": "Approved", "status": status, "reason": "r"}]}}


async def test_client_certificates_of_masters_are_refused() -> None:
    """A request for a client certificate of system:masters is refused; other signers are not checked."""
    async with Environment() as env:
        call = Caller(env)
        answer = await call("POST", REQUESTS, request("a", "system:masters"))
        assert answer.json["message"] == (
            'certificatesigningrequests.certificates.k8s.io "a" is forbidden: use of'
            " kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
        assert (await call("POST", REQUESTS, request("a", "system:masters", "example.com/mine"))).status == 201


async def test_approval_needs_a_permission_on_the_signer() -> None:
    """Approval needs a permission on the signer or on its domain; the status takes no approvals."""
    async with Environment() as env:
        admin, user = Caller(env), env.add_user("alice")
        alice = Caller(env, user.config.token)
        rules = [
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests", *more], "verbs": ["*"]}
            for more in (["certificatesigningrequests/approval", "certificatesigningrequests/status"],)
        ]
        await admin("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "ask"}, "rules": rules})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ask"}
        subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
        await admin(
            "POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "b"}, "roleRef": ref, "subjects": subjects}
        )
        response = await alice("POST", REQUESTS, request("a", signer="example.com/mine"))
        assert response.json["spec"]["username"] == "alice"
        answer = await alice("PATCH", f"{REQUESTS}/a/approval", approved(), content_type=MERGE)
        assert answer.json["message"].endswith(
            'is forbidden: user not permitted to approve requests with signerName "example.com/mine"'
        )
        signers = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"]}
        role = [*rules, {**signers, "resourceNames": ["example.com/*"]}]
        await admin("PATCH", f"{RBAC}/clusterroles/ask", {"rules": role}, content_type=MERGE)
        assert (await alice("PATCH", f"{REQUESTS}/a/status", approved(), content_type=MERGE)).status in (403, 422)
        answer = await alice("PATCH", f"{REQUESTS}/a/approval", approved(), content_type=MERGE)
        assert answer.status == 200
        first = answer.json["status"]["conditions"][0]
        assert first["lastTransitionTime"] == first["lastUpdateTime"]


async def test_usages_signers_and_durations_are_validated() -> None:
    """Usages, signer names and durations are validated."""
    async with Environment() as env:
        call = Caller(env)
        body = request("a", signer="local/mine", usages=["fly", "fly"], expirationSeconds=5)
        answer = await call("POST", REQUESTS, body)
        assert [(c["field"], c["reason"]) for c in answer.json["details"]["causes"]] == [
            ("spec.usages[0]", "FieldValueNotSupported"),
            ("spec.usages[1]", "FieldValueNotSupported"),
            ("spec.usages[1]", "FieldValueDuplicate"),
            ("spec.signerName", "FieldValueInvalid"),
            ("spec.expirationSeconds", "FieldValueInvalid"),
        ]
        body = request("a")
        del body["spec"]["usages"]
        answer = await call("POST", REQUESTS, body)
        assert answer.json["details"]["causes"][0]["field"] == "spec.usages"
