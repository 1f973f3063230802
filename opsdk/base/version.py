"""The version of opsdk; the build reads it here."""

VERSION = "0.1.0"
