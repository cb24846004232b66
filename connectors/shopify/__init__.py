"""Shopify's Admin API as a source: pages of customers and orders, read only (PRODUCT 3.10)."""
