"""What name servers answer for a name, beside what is stored."""
