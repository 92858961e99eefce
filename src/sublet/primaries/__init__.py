"""Zones on primaries (Knot, BIND, PowerDNS): publishing, checking, repairing and watching them."""
