"""Subdomains: their registration, their life and their publication in the DNS."""
