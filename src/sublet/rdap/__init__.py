"""RDAP: what anyone may ask about a name, and whom to write to about it (docs/rdap.md)."""
