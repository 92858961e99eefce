"""The outbox: mails to users and to addresses that sign up, kept until they are sent."""
