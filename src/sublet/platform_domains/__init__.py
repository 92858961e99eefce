"""Platform domains, under which users register names: their settings, offers, grants, labels and zones."""
