"""A Terraform and OpenTofu provider for registries that run Sublet."""
