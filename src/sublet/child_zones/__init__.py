"""What the zones of names ask for: DS records (CDS and CDNSKEY, RFC 8078, RFC 9615), and nameservers with
glue (CSYNC, RFC 7477).
"""
