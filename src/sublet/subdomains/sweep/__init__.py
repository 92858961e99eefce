"""The sweep: does what a name's dates say, behind a brake that stops it when the clock or the losses are implausible."""
