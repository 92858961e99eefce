"""`subletctl`, the command line of registrants. It needs the extra `cli` of the package: click and PyYAML."""
