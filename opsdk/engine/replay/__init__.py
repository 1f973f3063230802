"""Runs an operator again from a recording: the same requests at the same times, or what differs."""
