"""Signing in without passwords: mailed codes and links, passkeys, sessions, recoveries."""
