"""What observes or disturbs an environment: the journal of writes, faults, snapshots, the guard against hot loops.

Code that tests import to check or to start an environment belongs to ``testing``.
"""
