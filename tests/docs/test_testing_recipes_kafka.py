"""The page on testing: its recipe for other languages, tried with a client in Java."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.examples import ROOT
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LIMIT_S = 110


def test_a_suite_in_another_language(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """The script as it is printed: Kafka's own tools write and read, and offsets show it."""
    (recipe,) = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    java = " ".join(KafkaTools(kafka_artifacts).java(log=None))
    suite = tmp_path / "run-the-suite"
    suite.write_text(
        "#!/bin/bash\nset -e\n"
        f'printf "one\\ntwo\\n" | {java} {PRODUCER} --bootstrap-server "$BOOTSTRAP_SERVERS"'
        " --topic orders\n"
        f'{java} {CONSUMER} --bootstrap-server "$BOOTSTRAP_SERVERS" --topic orders'
        " --from-beginning --max-messages 2 --timeout-ms 60000 | sort\n",
        "utf-8",
    )
    suite.chmod(0o755)
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "kprod"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kprod.cli "$@"\n', "utf-8")
    command.chmod(0o755)
    result = subprocess.run(
        ["/bin/bash", "-e", "-c", recipe],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line in {"one", "two"}] == ["one", "two"]
    ends = [int(line.split()[5]) for line in lines if re.match(r"  \d", line)]
    assert sum(ends) == 2
