"""Subdomains: their registration, life cycle and delegation."""
