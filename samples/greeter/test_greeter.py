from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running

from greeter import Greeting, GreetingSpec, operator


async def test_greeting(k8s_env: Environment, k8s_client: Client) -> None:
    async with running(operator, k8s_env):  # installs the definition of Greeting too
        meta = ObjectMeta(name="a", namespace="default")
        await k8s_client.create(Greeting(metadata=meta, spec=GreetingSpec(name="World")))
        child = await eventually(lambda: k8s_client.get(ConfigMap, "default/a"))
        assert child.data == {"text": "Hello World!"}
