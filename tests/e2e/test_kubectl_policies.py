"""The real kubectl with admission policies."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]

POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 5
    messageExpression: "'too many replicas: ' + string(object.spec.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'owner': request.userInfo.username}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner}
spec: {policyName: owner}
"""


async def test_policies_from_a_file(stage: Any) -> None:
    """``apply`` writes policies, ``get`` shows them, and ``create`` and ``scale`` feel them."""
    try:
        await stage.server()
        assert (await stage.kubectl("apply", "-f", "-", stdin=POLICIES)).count("created") == 4
        # The rules of policies have got a scope by now, which kubectl would take away again.
        assert (await stage.kubectl("apply", "-f", "-", stdin=POLICIES)).count("unchanged") == 2
        listed = await stage.kubectl("get", "validatingadmissionpolicies,mutatingadmissionpolicies")
        assert "VALIDATIONS" in listed
        assert "MUTATIONS" in listed
        refused = await stage.kubectl("create", "deployment", "d", "--image=i", "--replicas=6", check=False)
        assert "denied request: too many replicas: 6" in refused
        await stage.kubectl("create", "deployment", "d", "--image=i", "--replicas=2")
        owner = await stage.kubectl("get", "deployment", "d", "-o", "jsonpath={.metadata.labels.owner}")
        assert owner == "admin"
        assert "too many" in await stage.kubectl(
            "patch", "deployment", "d", "-p", '{"spec": {"replicas": 9}}', check=False
        )
        assert "scaled" in await stage.kubectl("scale", "deployment", "d", "--replicas=9")
    finally:
        await stage.close()
