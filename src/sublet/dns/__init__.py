"""The DNS rules for names, delegations and zones, by the RFCs, and DNS messages. Nothing here knows accounts or SQL."""
