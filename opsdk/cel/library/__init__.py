"""CEL libraries: the standard library, extensions, and Kubernetes' own.

Upstream: github.com/google/cel-go/ext, k8s.io/apiserver/pkg/cel/library.
"""
