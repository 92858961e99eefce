"""Sublet: a registry for the names under your own domain."""

__version__ = "0.1.0"
