"""Pod security standards: levels, checks, and the plugin that goes by the labels of namespaces."""
