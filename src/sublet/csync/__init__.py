"""Nameservers and glue that follow what the child publishes: CSYNC (RFC 7477)."""
