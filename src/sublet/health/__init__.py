"""Check that the published delegations work: ask their nameservers what a resolver on
the Internet would ask.
"""
