"""Where objects are kept: a store-wide revision, snapshots, compare-and-swap writes, watches.

Knows keys and JSON trees; nothing of kinds, selectors or HTTP.
"""
