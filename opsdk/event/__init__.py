"""Events and requests: the values that travel from a source to a queue.

`opsdk.sources` turn informers and channels into events, `opsdk.predicates` drop events, and `opsdk.handlers` map an
event to requests. A request carries a key, never an event: a reconciler reads the current state.
"""
