"""Pod security standards: levels, checks, and the plugin that enforces the labels of namespaces."""
