"""One API server over HTTP: configuration, credentials, requests, answers, watch frames, discovery, the transport.

Pure modules hold the rules (`request`, `response`, `retry`, `frames`, `proxy`, `kubeconfig`); `connection`, `asgi`
and `transport` move the bytes. Objects and schemes are the business of the client above.
"""
