"""Bodies in protobuf, and raw fields that keep their text. JSON and YAML are in `opsdk.apimachinery.serializer`.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer (v1.36).

Pure functions with the error messages of the Go decoders. Content negotiation belongs to `opsdk.apiserver.endpoints`.
"""
