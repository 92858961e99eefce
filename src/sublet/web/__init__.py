"""The console: the API's operations as pages for browsers.

It has no rules of its own: each page calls operations, or the functions with which they read.
"""
