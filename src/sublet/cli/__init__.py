"""The operator's command line, and the process that serves."""
