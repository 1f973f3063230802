"""Admission webhooks: selection, AdmissionReview requests and responses, order of calls.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook (v1.36).
"""
