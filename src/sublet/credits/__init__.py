"""Credits: the ledger, coupons, packages, and what is shown of them."""
