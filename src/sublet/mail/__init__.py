"""The outbox and the mailer.

The outbox stores mails to users and to addresses that sign up until they are sent.
"""
