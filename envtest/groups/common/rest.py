"""Stores of objects whose writers are checked."""

from __future__ import annotations

from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import Transform, Validate, accept
from opsdk.structured_merge.value import JsonObject

SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The response of subresources that return no object."""


class CheckedStore(LocalStore):
    """Checks the writer of each create and update. Subclasses override the hook that runs at the right time."""

    async def check_before_validation(
        self, context: Context, name: str, obj: JsonObject, old: JsonObject | None
    ) -> None:
        """Raise `ApiError` to refuse the write; runs before the strategy. A create has no `name` and no `old`."""

    async def check_after_validation(self, context: Context, obj: JsonObject, old: JsonObject | None) -> None:
        """Raise `ApiError` to refuse the write; runs after the strategy's validation. A create has no `old`."""

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        await self.check_before_validation(context, "", obj, None)
        return await super().create(context, name, obj, self._checked(context, validate))

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        async def checked(current: JsonObject | None) -> JsonObject:
            desired = await transform(current)
            await self.check_before_validation(context, name, desired, current)
            return desired

        after = self._checked(context, validate)
        return await super().update(context, name, checked, after, force_create=force_create, uid=uid)

    def _checked(self, context: Context, validate: Validate) -> Validate:
        async def checked(obj: JsonObject, old: JsonObject | None) -> None:
            await self.check_after_validation(context, obj, old)
            await validate(obj, old)

        return checked
