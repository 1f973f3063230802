"""An aggregated API server for Books."""
