"""Quotas in front of the handlers."""
