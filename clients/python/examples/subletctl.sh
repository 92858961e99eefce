#!/bin/sh
# Renew every name that can be renewed, for at most 10 credits each. SUBLET_URL and SUBLET_TOKEN say whose names.
set -eu
subletctl names list --renewable --quiet | while read -r name; do
    subletctl renew "$name" --yes --max-credits 10 --template '{fqdn} until {expires_at}' </dev/null || [ $? -eq 5 ]
done
