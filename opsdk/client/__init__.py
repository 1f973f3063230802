"""Reading and writing objects: operations as values, a client with the verbs, patches, wrappers.

`opsdk.client.client.Client` turns method calls into operations (`opsdk.client.operations`); a executor carries them
out: the direct one sends requests, the cached one answers from informers, wrappers change operations on their way.
"""
