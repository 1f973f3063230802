from opsdk import GroupVersionKind, Model, Object, ObjectMeta, Operator, Request
from opsdk.api.core.v1 import ConfigMap


class GreetingSpec(Model):
    name: str


class Greeting(Object[GreetingSpec, Model]):
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Greeting")


operator = Operator("greeter")


@operator.reconciler(Greeting, owns=[ConfigMap])
async def reconcile(request: Request) -> None:
    greeting = await operator.client.get_or_none(Greeting, request.key)
    if greeting is not None:
        meta = ObjectMeta(name=request.name, namespace=request.namespace)
        await operator.ensure(ConfigMap(metadata=meta, data={"text": f"Hello {greeting.spec.name}!"}), owner=greeting)


if __name__ == "__main__":
    operator.run()
