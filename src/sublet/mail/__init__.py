"""The outbox: mails to users, kept until they are sent."""
