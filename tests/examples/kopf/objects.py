"""The object of kopf's end-to-end tests."""

from __future__ import annotations

from opsdk import Client, MergeFrom, ObjectMeta
from tests.examples.kopf.kinds import Example, ExampleSpec, ExampleStatus

KEY = "default/example"


def example() -> Example:
    """Return the object that kopf's end-to-end tests create."""
    meta = ObjectMeta(
        name="example",
        namespace="default",
        labels={"somelabel": "somevalue"},
        annotations={"someannotation": "somevalue"},
    )
    return Example(metadata=meta, spec=ExampleSpec(field="value", items=["item1", "item2"]))


async def status_of(client: Client) -> ExampleStatus:
    """Return the status of the object."""
    status = (await client.get(Example, KEY)).status
    assert status is not None
    return status


async def set_field(client: Client, value: str) -> None:
    """Change the spec of the object."""
    live = await client.get(Example, KEY)
    live.spec.field = value
    await client.patch(live, MergeFrom())
