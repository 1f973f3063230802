"""What ``repr`` of objects shows, and what it hides."""

from opsdk.api.authentication.v1 import TokenRequest, TokenRequestStatus
from opsdk.api.core.v1 import Container, Pod, PodSpec, Secret
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_secrets_are_hidden() -> None:
    """Secret data, tokens and kubectl's last-applied annotation appear in no repr."""
    meta = ObjectMeta(name="a", annotations={LAST_APPLIED: "hunter2", "team": "blue"})
    tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "hunter2"}}
    for obj in (
        Secret(metadata=meta, string_data={"k": "hunter2"}),
        TokenRequest(status=TokenRequestStatus(token="hunter2")),
        Unstructured.from_tree(tree),
    ):
        assert "hunter2" not in repr(obj)
        assert "hidden" in repr(obj)
    assert "blue" in repr(Secret(metadata=meta))


def test_defaults_are_left_out() -> None:
    """A pod of two fields is one line."""
    pod = Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(containers=[Container(name="c", image="i")]))
    assert len(repr(pod)) < 250
    assert "image='i'" in repr(pod)
