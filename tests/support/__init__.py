"""Services, servers, registries, clients and checks that tests share."""
