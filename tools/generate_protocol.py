"""Write the tables of `kprod/protocol` from Kafka's own definitions; development only.

Two `kafka-clients` jars are read: the newest for all messages, and the last of the 3.x line for the
versions that 4.0 withdrew and that old clients still speak. The newest `kafka-group-coordinator`
jar has the records of `__consumer_offsets`. Only facts are taken (names, types, version ranges,
tags, defaults, error codes). Fetch the jars, then write (needs Java 17, since the
error codes exist as compiled code only):

    for jar in clients:4.3.1 clients:3.9.1 group-coordinator:4.3.1; do mvn -q dependency:get \
        -Dtransitive=false -Dartifact=org.apache.kafka:kafka-$jar; done
    python -m tools.generate_protocol

`--check` writes nothing and fails if a committed table differs. `--jars NEW OLD GROUPS` reads other
files.

Versions that the newest jar marks as unstable are left out: a broker offers them only when told to.
"""

import argparse
import json
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kprod.protocol.schema import Field, Message, holds

ROOT = Path(__file__).resolve().parents[1]
NEW_VERSION, OLD_VERSION = "4.3.1", "3.9.1"
LINE_WIDTH = 100
Range = tuple[int, int]


class ErrorFact(NamedTuple):
    """One error code, its name, and whether trying again or fresh metadata may help."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool


# Requests (each with its response) that a producer, the embedded broker, or a test against Apache
# Kafka speaks; inter-broker and quorum traffic is left out.
APIS = """
    AddOffsetsToTxn AddPartitionsToTxn AlterConfigs AlterUserScramCredentials ApiVersions
    ConsumerGroupDescribe CreateAcls
    CreateDelegationToken CreatePartitions CreateTopics DeleteAcls DeleteGroups DeleteRecords
    DeleteTopics DescribeAcls DescribeCluster DescribeConfigs DescribeDelegationToken DescribeGroups
    DescribeLogDirs DescribeProducers DescribeTopicPartitions DescribeTransactions
    DescribeUserScramCredentials ElectLeaders EndTxn ExpireDelegationToken Fetch FindCoordinator
    Heartbeat IncrementalAlterConfigs InitProducerId JoinGroup LeaveGroup ListGroups ListOffsets
    ListTransactions Metadata OffsetCommit OffsetDelete OffsetFetch OffsetForLeaderEpoch Produce
    RenewDelegationToken SaslAuthenticate SaslHandshake SyncGroup TxnOffsetCommit UpdateFeatures
    WriteTxnMarkers
"""
STRUCTURES = """
    ConsumerProtocolAssignment ConsumerProtocolSubscription ControlRecordTypeSchema EndTxnMarker
    GroupMetadataKey GroupMetadataValue OffsetCommitKey OffsetCommitValue RequestHeader
    ResponseHeader
"""


def default_jars() -> tuple[Path, Path, Path]:
    """Return where Maven keeps the three jars, there or not."""
    new, old = (_cached("kafka-clients", version) for version in (NEW_VERSION, OLD_VERSION))
    return new, old, _cached("kafka-group-coordinator", NEW_VERSION)


def _cached(artifact: str, version: str) -> Path:
    cache = Path.home() / ".m2/repository/org/apache/kafka"
    return cache / artifact / version / f"{artifact}-{version}.jar"


def generate(new_jar: Path, old_jar: Path, groups_jar: Path) -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    new, old = _definitions(new_jar) | _definitions(groups_jar), _definitions(old_jar)
    keys = {d["apiKey"]: n for n, d in (old | new).items() if d["type"] == "request"}
    messages = [_merged(new[name], old.get(name)) for name in sorted(new) if _wanted(name)]
    messages.sort(key=lambda m: (m.api_key < 0, m.api_key, m.name))
    package = ROOT / "kprod/protocol"
    return {
        package / "api.py": api_text(keys),
        package / "error_table.py": error_text(_error_facts(new_jar)),
        package / "messages.py": messages_text(messages),
    }


def _wanted(name: str) -> bool:
    api = re.sub(r"(Request|Response)$", "", name)
    return name in STRUCTURES.split() or api in APIS.split()


# --- reading -------------------------------------------------------------------------------------


def _definitions(jar: Path) -> dict[str, dict[str, Any]]:
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if re.fullmatch(r"common/message/\w+\.json", entry):
                text = re.sub(r"^\s*//.*$", "", archive.read(entry).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    for name, definition in found.items():  # said of the request, meant for both
        request = found.get(name.replace("Response", "Request"), {})
        definition["unstable"] = bool(request.get("latestVersionUnstable"))
    return found


def _error_facts(jar: Path) -> list[ErrorFact]:
    program = Path(__file__).with_name("ErrorFacts.java")
    lines = subprocess.run(
        ["java", str(program), str(jar)],
        check=True, capture_output=True, text=True, timeout=120,
    ).stdout.splitlines()  # fmt: skip
    rows = (line.split() for line in lines)
    return sorted(ErrorFact(int(c), name, r == "true", m == "true") for c, name, r, m in rows)


def _range(text: str | None, within: Range) -> Range | None:
    """Read `3+`, `1-4`, `2` or `none`, cut to the versions of interest."""
    if text is None or text == "none":
        return None
    low, _, high = text.partition("-")
    first = int(low.rstrip("+"))
    last = within[1] if low.endswith("+") else int(high or low)
    cut = max(first, within[0]), min(last, within[1])
    return cut if cut[0] <= cut[1] else None


def _valid(definition: dict[str, Any]) -> Range:
    versions = _range(definition["validVersions"], (0, 1000)) or (0, -1)
    return versions[0], versions[1] - definition["unstable"]


def snake(name: str) -> str:
    """Turn Kafka's spelling into ours: `IsrNodes` is `isr_nodes`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower()


def _default(raw: str | int | None) -> int | str | None:
    if raw in {None, "", "false", False}:
        return 0
    if raw == "null":
        return None
    return True if raw == "true" else int(str(raw), 0)


def _fields(definition: dict[str, Any], within: Range) -> tuple[Field, ...]:
    structures = {s["name"]: s["fields"] for s in definition.get("commonStructs", ())}
    return tuple(_field(raw, structures, within) for raw in definition["fields"]
                 if _range(raw["versions"], within))  # fmt: skip


def _field(raw: dict[str, Any], structures: dict[str, Any], within: Range) -> Field:
    versions = _range(raw["versions"], within) or within
    kind = raw["type"]
    inner: tuple[Field, ...] = ()
    if kind.strip("[]")[0].isupper():
        members = raw.get("fields") or structures[kind.strip("[]")]
        inner = _fields({"fields": members, "commonStructs": _as_list(structures)}, versions)
        kind = "[]struct" if kind.startswith("[]") else "struct"
    tagged = _range(raw.get("taggedVersions"), versions)
    return Field(
        name=snake(raw["name"]),
        kind=kind,
        versions=versions,
        nullable=_range(raw.get("nullableVersions"), versions),
        tagged=tagged,
        tag=raw["tag"] if tagged else -1,
        default=_default(raw.get("default")),
        ignorable=bool(raw.get("ignorable")),
        fixed_length=raw.get("flexibleVersions") == "none",
        fields=inner,
    )


def _as_list(structures: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "fields": fields} for name, fields in structures.items()]


# --- joining two releases ------------------------------------------------------------------------


def _merged(new: dict[str, Any], old: dict[str, Any] | None) -> Message:
    versions = _valid(new)
    fields = _fields(new, versions)
    if old is not None and _valid(old)[0] < versions[0]:
        before = (_valid(old)[0], versions[0] - 1)
        old_fields = _fields(old, before)
        joined = _join(old_fields, fields)
        _same_on_the_wire(new["name"], joined, old_fields, before)
        _same_on_the_wire(new["name"], joined, fields, versions)
        fields, versions = joined, (before[0], versions[1])
    flexible = _range(new["flexibleVersions"], (0, 1000))
    # A record's type has the same name there as the key of a request.
    key = new.get("apiKey", -1) if new["type"] in {"request", "response"} else -1
    return Message(new["name"], key, versions, flexible[0] if flexible else None, fields)


def _join(old: tuple[Field, ...], new: tuple[Field, ...]) -> tuple[Field, ...]:
    """Put fields that the newer release dropped back where they stood."""
    joined: list[Field] = []
    rest = list(new)
    for field in old:
        if all(field.name != other.name for other in rest):
            joined.append(field)
            continue
        while rest[0].name != field.name:
            joined.append(rest.pop(0))
        joined.append(_join_field(field, rest.pop(0)))
    return (*joined, *rest)


def _join_field(old: Field, new: Field) -> Field:
    return new._replace(
        versions=_union(old.versions, new.versions) or new.versions,
        nullable=_union(old.nullable, new.nullable),
        fields=_join(old.fields, new.fields),
    )


def _union(old: Range | None, new: Range | None) -> Range | None:
    if old is None or new is None:
        return new or old
    if old[1] + 1 != new[0]:
        raise ValueError(f"ranges {old} and {new} leave a gap")
    return old[0], new[1]


def _same_on_the_wire(
    name: str, ours: tuple[Field, ...], theirs: tuple[Field, ...], versions: Range
) -> None:
    for version in range(versions[0], versions[1] + 1):
        if list(_wire(ours, version)) != list(_wire(theirs, version)):
            raise ValueError(f"{name} v{version}: the releases cannot be joined")


def _wire(fields: Iterable[Field], version: int) -> Iterator[tuple[object, ...]]:
    for f in fields:
        if holds(f.versions, version):
            states = holds(f.nullable, version), holds(f.tagged, version), f.fixed_length
            yield f.name, f.kind, f.tag, *states, *_wire(f.fields, version)


# --- writing -------------------------------------------------------------------------------------

_HEAD = '''"""{subject}

Generated from kafka-clients {new} (and {old} for versions that 4.0 withdrew) and
kafka-group-coordinator {new} by `tools/generate_protocol.py`; do not edit.
"""
'''


def _head(subject: str) -> str:
    return _HEAD.format(subject=subject, new=NEW_VERSION, old=OLD_VERSION)


def messages_text(messages: Iterable[Message]) -> str:
    """Return the source of the message tables."""
    rows = "".join(_call("Message", m._asdict(), indent=4) + ",\n" for m in messages)
    return (
        _head("Every message kprod knows, in every version: names, types, ranges, tags, defaults.")
        + "\nfrom typing import Final\n\nfrom kprod.protocol.schema import Field, Message\n\n"
        + f"MESSAGES: Final[tuple[Message, ...]] = (\n{rows})\n"
    )


def _call(name: str, arguments: dict[str, Any], *, indent: int) -> str:
    """Write a call: on one line if it fits, else one argument a line."""
    positional = ("name", "kind", "versions") if name == "Field" else tuple(arguments)
    shown = [
        (key if key not in positional else "", value)
        for key, value in arguments.items()
        if key in positional or value != Field._field_defaults.get(key)
        or (value is None and key == "default")
    ]  # fmt: skip
    line = f"{name}({', '.join(_argument(k, v, indent=indent) for k, v in shown)})"
    if len(line) + indent + 1 <= LINE_WIDTH and "\n" not in line:
        return " " * indent + line
    inner = indent + 4
    parts = [" " * inner + _argument(k, v, indent=inner) for k, v in shown]
    return " " * indent + f"{name}(\n" + ",\n".join(parts) + ",\n" + " " * indent + ")"


def _argument(key: str, value: object, *, indent: int) -> str:
    prefix = f"{key}=" if key else ""
    if isinstance(value, tuple) and value and isinstance(value[0], Field):
        line = f"{prefix}({_call('Field', value[0]._asdict(), indent=0)},)"
        if len(value) == 1 and "\n" not in line and len(line) + indent < LINE_WIDTH:
            return line
        rows = (_call("Field", f._asdict(), indent=indent + 4) + ",\n" for f in value)
        return f"{prefix}(\n{''.join(rows)}{' ' * indent})"
    if isinstance(value, str):
        return f'{prefix}"{value}"'
    return f"{prefix}{value!r}"


def api_text(keys: dict[int, str]) -> str:
    """Return the source of the API keys."""
    names = {key: snake(name.removesuffix("Request")).upper() for key, name in keys.items()}
    rows = "".join(f"    {name} = {key}\n" for key, name in sorted(names.items()))
    return (
        _head("The numbers of Kafka's request types.")
        + "\nimport enum\n\n\nclass ApiKey(enum.IntEnum):\n"
        + f'    """Key of an API; includes APIs that kprod does not support."""\n\n{rows}'
    )


def error_text(rows: list[ErrorFact]) -> str:
    """Return the source of the error codes and their classes."""
    codes = "".join(f"    {name} = {code}\n" for code, name, _, _ in rows)
    faults = [row for row in rows if row[0] != 0]
    classes = "".join(map(_error_class, faults))
    table = "".join(f"    {code}: {_camel(name)},\n" for code, name, _, _ in faults)
    return (
        _head("Kafka's error codes, and a class for each.")
        + "\nimport enum\nfrom typing import Final\n\nfrom kprod.errors import BrokerError\n"
        + "from kprod.peer_text import peer_text\n\n\n"
        + 'class ErrorCode(enum.IntEnum):\n    """Kafka\'s error codes by name."""\n\n'
        + f"{codes}\n\n{classes}"
        + f"ERRORS: Final[dict[int, type[BrokerError]]] = {{\n{table}}}\n"
        + _ERROR_FOR
    )


_ERROR_FOR = '''

def error_for(code: int, message: str | None = "") -> BrokerError:
    """Make the error that a code on the wire stands for.

    Args:
        code: Any code but 0; one that the table lacks is kept in the error's `code`.
        message: The peer's own words; see `peer_text`.

    Returns:
        A fresh error; `code`, `name`, `retriable` and `refresh_metadata` say what to do.

    Raises:
        ValueError: `code` is 0, which is success.
    """
    if code == 0:
        raise ValueError("code 0 is success, not an error")
    error_class = ERRORS.get(code, BrokerError)
    name = error_class.name if code in ERRORS else f"UNKNOWN_ERROR_{code}"
    said = peer_text(message or "")
    error = error_class(f"{name} (code {code})" + (f": {said}" if said else ""))
    if code not in ERRORS:
        error.code, error.name = code, name
    return error
'''


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _error_class(fact: ErrorFact) -> str:
    notes = "; may succeed later" * fact.retriable + "; metadata is stale" * fact.refresh_metadata
    lines = [
        f"class {_camel(fact.name)}(BrokerError):",
        f'    """Code {fact.code}{notes}."""\n',
        f"    code = {fact.code}",
        f'    name = "{fact.name}"',
    ]
    lines += ["    retriable = True"] * fact.retriable
    lines += ["    refresh_metadata = True"] * fact.refresh_metadata
    return "\n".join(lines) + "\n\n\n"


def main() -> int:
    """Write or check the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--jars", nargs=3, type=Path, default=default_jars(), metavar=("NEW", "OLD", "GROUPS")
    )
    parser.add_argument("--check", action="store_true", help="fail if a table is out of date")
    arguments = parser.parse_args()
    stale = 0
    for path, text in generate(*arguments.jars).items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{'stale' if arguments.check else 'written'}: {path.relative_to(ROOT)}")
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
