"""No deadline for a single example, and no complaint that examples are slow to make: time is no property of what is tested."""

from hypothesis import HealthCheck, settings

settings.register_profile("pybroker", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pybroker")
