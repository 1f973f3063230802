"""Who owns which field: the logic behind ``metadata.managedFields``.

Pure: objects in, objects out, `now` as text. What happens before (decoding, defaulting) and after (admission,
validation, storing) is the endpoints' and the registry's business.
"""
