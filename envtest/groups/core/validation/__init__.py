"""Validation of the core group, a file per kind or part of a kind. Functions yield causes; nothing is changed here."""
