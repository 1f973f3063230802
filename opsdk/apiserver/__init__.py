"""The API server framework: storage, registries, admission, endpoints, a delegation chain.

Upstream: k8s.io/apiserver and k8s.io/kube-aggregator (v1.36).

It has upstream's packages and names, has no kinds (`envtest` adds the built-in kinds), and never imports the client
side. `WebServer` serves an application over HTTP or TLS.
"""

from opsdk.http.server.server import ServeOptions, Tls, WebServer

__all__ = ["ServeOptions", "Tls", "WebServer"]
