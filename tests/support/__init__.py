"""What tests share: services, servers, registries, clients and checks."""
