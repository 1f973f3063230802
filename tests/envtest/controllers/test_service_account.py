"""Laws of `envtest.controllers.service_account`."""

from __future__ import annotations

import base64

from envtest.controllers.service_account import kept_token
from envtest.controllers.writes import DeleteWrite, UpdateWrite
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, settle

ACCOUNT: JsonObject = {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}


def secret(uid: str = "", **data: str) -> JsonObject:
    """A secret for the account's token."""
    notes = {"kubernetes.io/service-account.name": "robot"}
    if uid:
        notes["kubernetes.io/service-account.uid"] = uid
    return {"metadata": {"name": "s", "namespace": "ns", "uid": "s1", "annotations": notes}, "data": data}


def test_a_secret_is_filled_once() -> None:
    """Without a token it gets one, with the certificate and the namespace; with one it stays as it is."""
    expected = kept_token(secret(extra="eA=="), ACCOUNT, lambda claims: str(claims["sub"]), "CA")
    assert isinstance(expected, UpdateWrite)
    data = {key: base64.b64decode(value).decode() for key, value in expected.obj["data"].items()}
    token = "system:serviceaccount:ns:robot"
    assert data == {"extra": "x", "ca.crt": "CA", "namespace": "ns", "token": token}
    assert expected.obj["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == "u1"
    assert kept_token(expected.obj, ACCOUNT, str, "CA") is None


def test_a_secret_goes_with_its_account() -> None:
    """Without the account, or with another one of its name, the secret is deleted."""
    for of, account in ((secret(), None), (secret("old"), ACCOUNT)):
        assert isinstance(kept_token(of, account, str, "CA"), DeleteWrite)


async def test_the_kept_token_lets_the_account_in() -> None:
    """A secret of the right type has a working token soon; deleting the account takes the secret along."""
    async with Environment(controllers="serviceaccount-token") as env:
        api = Kubectl(env)
        await api.create(f"{CORE}/serviceaccounts", {"metadata": {"name": "robot"}})
        notes = {"kubernetes.io/service-account.name": "robot"}
        body = {"metadata": {"name": "s", "annotations": notes}, "type": "kubernetes.io/service-account-token"}
        await api.create(f"{CORE}/secrets", body)
        await settle()
        data = (await api.get(f"{CORE}/secrets/s"))["data"]
        review = {"spec": {"token": base64.b64decode(data["token"]).decode()}}
        result = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert result["status"]["user"]["username"] == "system:serviceaccount:default:robot"
        await api.delete(f"{CORE}/serviceaccounts/robot")
        await settle()
        assert await api.names(f"{CORE}/secrets") == []
