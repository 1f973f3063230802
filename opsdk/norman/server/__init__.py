"""Request handling: URLs, checks, handlers, formats, subscriptions.

Contains the layers between HTTP and a store. Not here: stores of objects (`opsdk.norman.stores`).
"""
