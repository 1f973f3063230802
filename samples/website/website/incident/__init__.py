"""A demo of a bad night: a release with a bug, its alert, its recording, and the proof of its repair."""
