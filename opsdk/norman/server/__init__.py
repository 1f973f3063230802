"""The flow of a request: URL, checks, handlers, formats, subscriptions.

Here belongs what stands between HTTP and a store. Not here: where objects are (`opsdk.norman.stores`).
"""
