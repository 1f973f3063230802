"""The web page: browse, create, edit and watch the objects of every schema.

Contains templates, static files, and the rendering of results as HTML. Not here: access control
(`opsdk.norman.server`).

``static/htmx.min.js`` is htmx 2.0.11 as published, with its licence next to it.
"""
