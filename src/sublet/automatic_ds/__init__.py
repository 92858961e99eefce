"""DS records that follow a child's CDS and CDNSKEY records (RFC 7344, RFC 8078), and authenticated
bootstrapping (RFC 9615).
"""
