from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.rbac.rules import applies, patches_status


class GreetingSpec(Model):
    name: str


class GreetingStatus(Model):
    text: str = ""


class Greeting(Object[GreetingSpec, GreetingStatus]):
    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Greeting")


operator = Operator("greeter")


@operator.reconciler(Greeting, owns=[ConfigMap], rbac=[applies(ConfigMap), patches_status(Greeting)])
async def reconcile(greeting: Greeting, ctx: Context) -> None:
    text = f"Hello {greeting.spec.name}!"
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=greeting.metadata.name), data={"text": text}))
    async with ctx.status(greeting) as patch:
        patch.status.text = text


if __name__ == "__main__":
    operator.main()
