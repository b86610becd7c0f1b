"""The pytest plugin as a project of its users meets it."""

import pytest

# By its module's name, and not a second time by the entry point of an installed kprod.
OPTIONS = ["-p", "no:kprod", "-p", "pytest_kprod", "-p", "no:randomly", "-W", "error"]
FAULT = "kprod_cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER"


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    """Run a file of tests with the plugin."""
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess(*OPTIONS, "--strict-markers")


def test_options_are_a_fixture(pytester: pytest.Pytester) -> None:
    """The options of each test's cluster, and of the shared one."""
    result = run(
        pytester,
        """
        import pytest
        @pytest.fixture
        def kprod_cluster_options():
            return {"brokers": 1, "topics": {"orders": 2}}

        @pytest.fixture(scope="session")
        def kprod_cluster_session_options():
            return {"brokers": 2}

        def test_new(kprod_cluster, kprod_cluster_session):
            assert set(kprod_cluster.records("orders")) == {0, 1}
            assert len(kprod_cluster_session.bootstrap_servers.split(",")) == 2
        """,
    )
    result.assert_outcomes(passed=1)


def test_options_are_a_marker(pytester: pytest.Pytester) -> None:
    """The nearest wins, argument by argument, and over the fixture."""
    result = run(
        pytester,
        """
        import pytest
        pytestmark = pytest.mark.kprod(brokers=2, topics={"orders": 2})

        @pytest.fixture
        def kprod_cluster_options():
            return {"brokers": 1, "default_partitions": 5}

        @pytest.mark.kprod(topics={"audit": 3})
        def test_marked(kprod_cluster, kprod_bootstrap_servers):
            assert kprod_bootstrap_servers == kprod_cluster.bootstrap_servers
            assert len(kprod_bootstrap_servers.split(",")) == 2
            assert set(kprod_cluster.records("audit")) == {0, 1, 2}
            kprod_cluster.create_topic("made")
            assert len(kprod_cluster.records("made")) == 5

        @pytest.mark.kprod(3)
        def test_positional(kprod_cluster):
            pass
        """,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the marker kprod takes arguments by name, got (3,)*"])


def test_addresses_alone(pytester: pytest.Pytester) -> None:
    """The shared cluster's is the same in every test."""
    result = run(
        pytester,
        """
        seen = set()
        def test_one(kprod_session_bootstrap_servers, kprod_bootstrap_servers):
            seen.add(kprod_session_bootstrap_servers)
            assert kprod_session_bootstrap_servers != kprod_bootstrap_servers

        def test_two(kprod_session_bootstrap_servers):
            assert seen == {kprod_session_bootstrap_servers}
        """,
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("end", "outcome", "line"),
    [
        (
            ")",
            {"errors": 1},
            "*PRODUCE answered with an error code NOT_LEADER*, times=1;*",
        ),
        (", skip=2, broker=1)", {"errors": 1}, "*, times=1, skip=2, broker=1; clear it with*"),
        ("); kprod_cluster.faults.clear()", {}, "*1 passed*"),
        ("); send(kprod_cluster)", {}, "*1 passed*"),
        (", times=9); send(kprod_cluster)", {}, "*1 passed*"),
        ("); kprod_cluster.close()", {"errors": 1}, "*UntriggeredFaultWarning*"),
    ],
)
def test_a_fault_that_no_request_met_is_a_warning(
    pytester: pytest.Pytester, end: str, outcome: dict[str, int], line: str
) -> None:
    """An error with `-W error`; one that hit once has shown what it is for."""
    result = run(
        pytester,
        f"""
        from kprod import Producer
        from kprod.protocol.api import ApiKey
        from kprod.protocol.error_table import ErrorCode

        def send(cluster):
            with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                producer.send("orders", b"x").result(30)

        def test_it(kprod_cluster):
            {FAULT}{end}
        """,
    )
    result.assert_outcomes(passed=1, **outcome)
    result.stdout.fnmatch_lines([line])
