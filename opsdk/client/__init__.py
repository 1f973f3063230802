"""Reads and writes objects: the client, operations as values, options, decorators.

`Client` turns method calls into operations (`opsdk.client.operations`). An executor carries them out: the direct client
sends requests, the cached reader uses informers, decorators change operations. HTTP belongs to `opsdk.rest`.

Upstream: sigs.k8s.io/controller-runtime/pkg/client
"""
