"""APIServices of other servers: availability, proxying, merged discovery and OpenAPI.

Upstream: k8s.io/kube-aggregator (v1.36).
"""
