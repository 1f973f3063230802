# Types of the front door; at run time its names are imported when they are first used.
from envtest.environment import Environment as Environment

__all__ = ["Environment"]
