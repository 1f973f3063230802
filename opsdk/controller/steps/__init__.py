"""The steps around a reconcile, one module each, and their order: `opsdk.controller.steps.chain`."""
