"""The sweep: expires, renews, trashes, purges and releases names by their dates.

A brake stops it if the clock or the losses are implausible.
"""
