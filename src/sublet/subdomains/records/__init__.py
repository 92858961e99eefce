"""Records of a name: the rule, the verbs and their API."""
