"""Norman: a REST API and a web page from schemas.

Here belong schemas, stores, mappers, the flow of a request, the client and the web page. Not here: the API server
framework (`opsdk.apiserver`), which speaks Kubernetes' own API.

Upstream: github.com/rancher/norman
"""
