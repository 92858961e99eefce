"""Opening an account: mailed codes, invitations, proof of work."""
