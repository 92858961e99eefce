"""Sublet: a registry for the names under your own domain."""
