"""Norman: a REST API and a web page from schemas.

Contains schemas, stores, mappers, request handling, the client and the web page. Not here: the API server
framework (`opsdk.apiserver`), which serves the Kubernetes API.

Upstream: github.com/rancher/norman
"""
