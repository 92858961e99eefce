"""DS records that follow what the child publishes: CDS and CDNSKEY (RFC 7344, RFC 8078), authenticated bootstrapping (RFC 9615)."""
