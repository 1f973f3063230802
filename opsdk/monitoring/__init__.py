"""Alerts, recording rules, a dashboard and runbooks of an operator, as values. Pure.

An alert is one `opsdk.monitoring.alert.Alert`. The rules, the runbooks and the table of the documentation are made of
it.
"""
