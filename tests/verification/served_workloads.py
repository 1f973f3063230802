"""Runs a generated workload against a server of this process, and checks each operation's response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from server_caller import Answer, Caller

from opsdk.structured_merge.value import JsonObject
from opsdk.verification.workload.operations import GeneratedWorkload, Operation, OperationKind
from opsdk.verification.workload.schema_fields import field_path
from opsdk.verification.workload.values import ValueClass

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def alone(definition: Mapping[str, Any], version: str) -> JsonObject:
    """Return a definition with one of its versions, stored and without conversion."""
    spec = definition["spec"]
    served = next(one for one in spec["versions"] if one["name"] == version)
    only = {**served, "served": True, "storage": True}
    fields = {key: one for key, one in spec.items() if key != "conversion"}
    return {**definition, "spec": {**fields, "versions": [only]}}


class WorkloadRun:
    """A run of one workload. Each operation must be admitted, or refused with an error that names its path."""

    def __init__(self, call: Caller, definition: Mapping[str, Any]) -> None:
        self._call = call
        spec = definition["spec"]
        namespaced = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}{namespaced}"
        self._collection = f"{path}/{spec['names']['plural']}"
        self._stored: JsonObject = {}

    async def run(self, workload: GeneratedWorkload) -> None:
        """Execute all operations in order."""
        for operation in workload.operations:
            answer = await self._execute(operation)
            if operation.value_class is ValueClass.BEYOND:
                assert answer.status in (400, 422), (str(operation), answer.status, answer.json)
                assert self._names_path(answer, operation), (str(operation), answer.json["message"])
            else:
                assert answer.status in (200, 201), (str(operation), answer.json["message"])
                self._stored = answer.json
        if self._stored:
            await self._call("DELETE", self._url(self._stored))

    async def _execute(self, operation: Operation) -> Answer:
        match operation.kind:
            case OperationKind.CREATE:
                return await self._call("POST", self._collection, operation.after)
            case OperationKind.RECREATE:
                deleted = await self._call("DELETE", self._url(self._stored))
                assert deleted.status == 200, deleted.json
                return await self._call("POST", self._collection, operation.after)
            case OperationKind.UPDATE | OperationKind.ROLLBACK:
                version = self._stored["metadata"]["resourceVersion"]
                metadata = {**operation.after["metadata"], "resourceVersion": version}
                return await self._call("PUT", self._url(self._stored), {**operation.after, "metadata": metadata})

    def _url(self, obj: JsonObject) -> str:
        return f"{self._collection}/{obj['metadata']['name']}"

    @staticmethod
    def _names_path(answer: Answer, operation: Operation) -> bool:
        path = re.escape(str(field_path(operation.changes[0].path)))
        return re.search(rf"{path}(?![\w-])", answer.json["message"]) is not None
