"""The rules of the RFCs for names, delegations and zones, and DNS messages.

No module here uses accounts or SQL.
"""
