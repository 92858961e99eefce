"""The registry as a whole: moved from one database to another."""
