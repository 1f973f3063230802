"""Admission webhooks: which are called, what they are told, what their answers mean, in which order."""
