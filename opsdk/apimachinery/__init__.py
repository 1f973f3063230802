"""What all kinds share: names of kinds and resources, metadata, objects, the scheme, the codec, selectors, patches.

Upstream: k8s.io/apimachinery (v1.36).

Hand-written. Nothing here talks to a server or knows a built-in kind: those are generated, in
``opsdk.api.<group>.<version>``.
"""
