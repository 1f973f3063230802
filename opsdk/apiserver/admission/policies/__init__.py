"""``ValidatingAdmissionPolicy`` and ``MutatingAdmissionPolicy``.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy (v1.36).
"""
