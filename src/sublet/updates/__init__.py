"""DNS UPDATE with TSIG, for programs that change the records of a name (docs/certificates.md)."""
