"""Update keys: the TSIG keys with which a name's records are changed by DNS UPDATE."""
