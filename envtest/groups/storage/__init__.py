"""The group storage: storage classes, CSI drivers, attachments.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
