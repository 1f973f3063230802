"""Admission plugins for built-in kinds, as in kube-apiserver; ``plugins`` selects the enabled ones.

Upstream: plugin/pkg/admission (v1.36). The chain, webhooks and policies belong to `opsdk.apiserver.admission`.
"""
