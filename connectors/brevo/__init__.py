"""Brevo as a destination: contacts on a list, orders, events, and nobody's "no" ever lifted (PRODUCT 3.7)."""
