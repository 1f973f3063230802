"""JSON and YAML text to JSON values and back, with the error messages of the Go decoders. Pure.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer (v1.36), sigs.k8s.io/yaml.
"""
