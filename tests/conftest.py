"""The list of plugins; fixtures live in them."""

pytest_plugins: list[str] = [
    "pytester",
    "tests.plugins.canary",
    "tests.plugins.early_logins",
    "tests.plugins.fresh_build",
    "tests.plugins.interrupts",
    "tests.plugins.kafka",
    "tests.plugins.kafka_secured",
    "tests.plugins.kerberos",
    "tests.plugins.kafka_kerberos",  # imports the two before
    "tests.plugins.leaks",
    "tests.plugins.properties",
    "tests.plugins.sides",
]
