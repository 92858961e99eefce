"""The outbox: what is to be told to users by mail, kept until it is sent."""
