"""In `make test` Hypothesis makes fewer inputs, also in the folders that are collected after this one."""

from hypothesis import settings

from support.repetitions import share

settings.register_profile("rules", max_examples=share(25, whole=100), deadline=None)
settings.load_profile("rules")
