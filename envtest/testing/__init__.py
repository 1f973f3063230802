"""What tests import to start an environment or to check it: fixtures for pytest and unittest, effects, komega.

Code that an environment needs belongs to ``instruments`` or below.
"""
