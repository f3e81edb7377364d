"""Settings of every test: a busy machine must not turn a property test red."""

from hypothesis import settings

settings.register_profile("course", deadline=None)
settings.load_profile("course")
