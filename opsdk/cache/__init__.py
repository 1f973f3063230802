"""Shared informers: what the server has, kept here and kept current, as encoded bytes with indices.

Pure: `store` (entries, indices, differences) and `reflection` (when to list, watch, resume, back off). Shells:
`listwatch` (requests), `informer` (the loop and its handlers), `reader` (reads), `cache` (all kinds together).
"""
