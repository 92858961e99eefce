"""The operator's command line, including the commands that run the service."""
