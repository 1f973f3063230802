"""Calls that the server makes itself: webhooks for admission and conversion. Failures read as those of Go do."""
