"""Nameservers and glue that follow a child's CSYNC record (RFC 7477)."""
