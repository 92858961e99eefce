"""Platform domains: the domains under which names are let, what they offer, who may see them, which labels are special."""
