"""An MCP server for registries that run Sublet."""
