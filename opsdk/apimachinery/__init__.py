"""Types that all kinds share: names of kinds and resources, metadata, objects, scheme, codec, selectors, patches.

Hand-written and without I/O. The built-in kinds are generated, in ``opsdk.api.<group>.<version>``.

Upstream: k8s.io/apimachinery/pkg (v1.36)
"""
