"""Parts of the documentation site's build."""
