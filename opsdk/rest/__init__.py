"""One API server over HTTP: configuration, credentials, requests, responses, watch frames, discovery, transport.

Pure modules hold the rules (`request`, `response`, `retry`, `frames`, `proxy`, `kubeconfig`); `dial` and `transport`
do the I/O. Objects and schemes belong to `opsdk.client`.

Upstream: k8s.io/client-go/rest, tools/clientcmd, discovery, transport (v1.36)
"""
