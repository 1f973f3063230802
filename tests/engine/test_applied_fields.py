"""Fields of objects of other owners in plans."""

from __future__ import annotations

from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.controller.applied_fields import FieldsOf
from opsdk.engine.plan import ChangeAction
from tests.engine.upgrades import App, Version, config, plan_for, state_of


class Marking(Version):
    """A version that marks the ConfigMap of another owner, and one that does not exist."""

    def operator(self) -> Operator:
        """Return a new operator."""
        operator = Operator(self.name)

        @operator.reconciler(App, name="apps", owns=[FieldsOf(ConfigMap)])
        async def reconcile(app: App, ctx: Context) -> None:
            for name in ("theirs", "absent"):
                meta = ObjectMeta(name=name, annotations={"example.com/app": app.metadata.name})
                await ctx.apply_fields(ConfigMap(metadata=meta))

        return operator


def test_fields_are_planned_and_nothing_is_created() -> None:
    """The plan has the one annotation with its field manager, and says that the other object does not exist."""
    theirs_before = config("theirs", a="b")
    theirs_before["metadata"]["namespace"] = "default"
    plan = plan_for(Marking(), state_of(Version(), more=[theirs_before]))
    changes = {change.subject: change for change in plan.changes}
    assert set(changes) == {"ConfigMap default/theirs", "App default/app-0"}
    theirs = changes["ConfigMap default/theirs"]
    assert (theirs.action, theirs.manager) == (ChangeAction.UPDATE, "apps/apps:default:app-0")
    assert [each.path for each in theirs.differences] == ["metadata.annotations"]
    assert any("ConfigMap default/absent does not exist" in each.message for each in plan.consequences)
