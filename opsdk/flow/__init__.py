"""From events to requests: sources, predicates, handlers.

A source turns what informers (or the user's own channels) tell into events; predicates drop those that do not matter;
a handler maps the rest to requests, which go to a controller's queue. Requests carry keys, never events: a reconciler
looks at the state as it is, not at how it came about.
"""
