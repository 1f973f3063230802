"""Storage with a global revision, snapshots, compare-and-swap writes and watches.

Upstream: k8s.io/apiserver/pkg/storage (v1.36).
"""
