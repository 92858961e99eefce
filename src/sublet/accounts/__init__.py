"""Users, organizations and tokens."""
