"""Clients around clients: each changes or refuses operations on their way, and applies to every verb alike."""
