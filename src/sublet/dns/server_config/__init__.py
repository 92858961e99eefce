"""Complete configurations of real name servers with the fewest rights: pure functions, from a zone's facts to text."""
