"""Admission plugins about Kubernetes' own kinds, as kube-apiserver runs them; ``plugins`` says which run.

Upstream: plugin/pkg/admission (v1.36). The chain, webhooks and policies belong to `opsdk.apiserver.admission`.
"""
