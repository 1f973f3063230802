"""The web page: browse, create, edit and watch the objects of every schema.

Here belong templates, static files, and what turns results into HTML. Not here: what a client may see
(`opsdk.norman.server`), which the page only shows.

``static/htmx.min.js`` is htmx 2.0.11 as published, with its licence beside it.
"""
