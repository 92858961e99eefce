"""The doctor: checks every invariant of the registry and changes nothing.

A check is a query and a sentence.
"""
