"""Records Kubernetes Events about objects. `correlator` is pure; `recorder` writes in the background.

Upstream: k8s.io/client-go/tools/events (v1.36)
"""
