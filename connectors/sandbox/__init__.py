"""Local Shopify and Brevo servers that speak the vendors' wire forms, keep state, inject faults and log violations."""

from connectors.sandbox.running import NotStarted, Served, serving, start

__all__ = ["NotStarted", "Served", "serving", "start"]
