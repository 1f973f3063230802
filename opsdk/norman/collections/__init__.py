"""Collections of the objects of a cluster: what cached stores list and watch.

Here belong queries, permissions of users, lists that follow an informer, and their watches. Not here: requests,
schemas, and the form of objects on the wire.
"""
