"""`make test` tries fewer of the inputs that Hypothesis makes."""

from hypothesis import settings

from support.repetitions import share

settings.register_profile("rules", max_examples=share(25, whole=100), deadline=None)
settings.load_profile("rules")
