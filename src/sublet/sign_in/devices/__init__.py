"""Sign-in of programs, by the device flow of RFC 8628."""
