"""Whether the delegations that the registry publishes work: what a resolver on the Internet would find at their nameservers."""
