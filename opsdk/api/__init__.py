"""The typed built-in kinds, in ``opsdk.api.<group>.<version>``; each is imported only where it is used.

Upstream: k8s.io/api (v1.36).

Generated only: hand-written types belong to `opsdk.apimachinery`.
"""
