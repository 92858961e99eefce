"""The HTTP API: turns a request into an actor and a command, and an outcome or a refusal into an answer."""
