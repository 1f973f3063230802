"""The API-server framework: storage, registries, endpoints, a delegation chain.

Built like k8s.io/apiserver and named like it. Knows no kinds: `envtest` brings those. Uses nothing of the client side.
"""
