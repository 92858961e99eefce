"""Subdomains: the names that are let, from registration to release, and their way into the DNS."""
