"""Local Shopify and Brevo servers that speak the vendors' wire forms, keep state, inject faults and log violations."""

from connectors.sandbox.running import (
    CONTROL_KEY,
    PRIVATE,
    NotStarted,
    SandboxKind,
    Served,
    environment,
    serving,
    start,
)

__all__ = ["CONTROL_KEY", "PRIVATE", "NotStarted", "SandboxKind", "Served", "environment", "serving", "start"]
