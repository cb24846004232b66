"""Measures what the engine costs beside a bare loop that does the same calls without ledger, lease or consent."""
