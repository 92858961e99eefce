"""What the RFCs say of names, delegations and zones; knows no customer and no SQL."""
