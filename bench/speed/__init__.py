"""The parts of `make bench`, a file each."""
