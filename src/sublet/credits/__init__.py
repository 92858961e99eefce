"""Credits: the ledger, quotes, coupons and packages."""
