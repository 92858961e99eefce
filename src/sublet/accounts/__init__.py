"""Users, organizations and tokens: who may ask."""
