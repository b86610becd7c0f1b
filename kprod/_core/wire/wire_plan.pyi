from collections.abc import Sequence
from enum import IntEnum, IntFlag

class Kind(IntEnum):
    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT16 = 5
    FLOAT64 = 6
    STRING = 7
    BYTES = 8
    RECORDS = 9
    UUID = 10
    STRUCT = 11
    ARRAY = 12

class Flag(IntFlag):
    NULLABLE = 1
    COMPACT = 2
    IGNORABLE = 4

class FieldPlan:
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def default(self) -> object: ...
    @property
    def size_min(self) -> int: ...
    def __init__(
        self,
        name: str,
        where: str,
        kind: int,
        flags: int,
        default: object,
        shape: FieldPlan | StructPlan | None,
    ) -> None: ...

class StructPlan:
    @property
    def where(self) -> str: ...
    @property
    def size_min(self) -> int: ...
    @property
    def dict_bytes(self) -> int: ...
    @property
    def flexible(self) -> bool: ...
    def __init__(
        self,
        where: str,
        fields: Sequence[FieldPlan],
        tagged: Sequence[tuple[int, FieldPlan, bytes]],
        absent: Sequence[FieldPlan],
        flexible: bool,
    ) -> None: ...

def encode_uvarint(value: int) -> bytes: ...
