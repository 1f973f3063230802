"""Leader election with a Lease: pure rules, and the loop that applies them.

Upstream: k8s.io/client-go/tools/leaderelection (v1.36)
"""
