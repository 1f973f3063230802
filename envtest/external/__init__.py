"""Programs outside this process: real binaries, existing clusters, kubectl, fake binaries.

Here belongs what starts, stops or calls another program. The server itself belongs to ``plane``.
"""
