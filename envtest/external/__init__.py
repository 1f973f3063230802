"""Programs outside this process: real binaries, existing clusters, kubectl, fake binaries.

Code that starts, stops or calls another program belongs here. The server itself belongs to ``plane``.
"""
