"""How many examples Hypothesis tries: chosen by `KPROD_HYPOTHESIS_PROFILE`, shown in the header.

`default` is the same examples on every run, so that a red run means a change; `quick` is a few of
them, for a second interpreter; `long` and `fuzz` draw new ones. No deadline: the machine may be
busy, and no test here is about time.
"""

import os

from hypothesis import HealthCheck, settings

ENVIRONMENT_VARIABLE = "KPROD_HYPOTHESIS_PROFILE"

settings.register_profile(
    "default",
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "quick",
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=5_000,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", settings.get_profile("long"), max_examples=50_000)
settings.load_profile(os.environ.get(ENVIRONMENT_VARIABLE, "default"))


def pytest_report_header() -> str:
    """Name the profile at the head of the run."""
    current = settings.get_current_profile_name()
    examples = settings.get_profile(current).max_examples
    return f"properties: profile {current}, {examples} examples each ({ENVIRONMENT_VARIABLE})"
