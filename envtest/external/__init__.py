"""Programs outside this process: real binaries, existing clusters, kubectl.

Code that starts, stops or calls another program belongs here. The server itself belongs to ``plane``.
"""
