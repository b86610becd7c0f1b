"""The codecs' common face: levels, what each format has, framing, agreement with other clients."""

import operator
import random
import sys
import threading
import tracemalloc
import warnings

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.message_set_builder import encode_message_set
from kprod.compression import compress, compressor, decompress
from kprod.compression.limits import STEP_BYTES
from kprod.config.producer_config import ProducerConfig
from kprod.errors import ConfigError, CorruptRecord, UnsupportedCodec
from kprod.model import CODECS, Codec
from kprod.record.message_set import read_message_set, write_message_set
from tests.oracle import codecs as oracle

with warnings.catch_warnings():
    # kafka-python reads its schemas through a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
FORMATS = [
    (codec, magic)
    for codec in Codec
    for magic in (0, 1, 2)
    if codec is not Codec.ZSTD or magic == 2
]

payloads = st.one_of(
    st.binary(max_size=300),
    st.builds(operator.mul, st.binary(max_size=40), st.integers(0, 20_000)),
)


@pytest.mark.parametrize(("codec", "magic"), FORMATS)
@given(payload=payloads)
def test_round_trip_and_reference(codec: Codec, magic: int, payload: bytes) -> None:
    """Compressed bytes read back, the reference reads them too, and writes bytes that we read."""
    ours = bytes(compress(codec, payload, magic=magic))
    assert decompress(codec, ours, magic=magic) == payload
    assert oracle.decompress(codec, ours, magic) == payload
    assert decompress(codec, oracle.compress(codec, payload, magic), magic=magic) == payload


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("length", [0, 1, 70_000, 300_000])
def test_agreement_with_kafka_python(codec: Codec, length: int) -> None:
    """kafka-python's codecs read ours, and we read theirs."""
    payload = b"a record, and another; " * (length // 23) + b"x" * (length % 23)
    name = codec.name.lower()
    encode, decode = (getattr(kafka.codec, f"{name}_{way}") for way in ("encode", "decode"))
    assert decompress(codec, encode(payload)) == payload
    # Its snappy reader takes a stream without blocks for a raw block.
    if payload or codec is not Codec.SNAPPY:
        assert decode(bytes(compress(codec, payload))) == payload


def test_agreement_with_cramjam() -> None:
    """The Rust implementations of the same formats read ours."""
    payload = b"a record, and another; " * 9_000
    readers = {
        Codec.GZIP: cramjam.gzip.decompress,
        Codec.LZ4: cramjam.lz4.decompress,
        Codec.ZSTD: cramjam.zstd.decompress,
    }
    for codec, read in readers.items():
        assert bytes(read(bytes(compress(codec, payload)))) == payload


@pytest.mark.parametrize("codec", [facts.codec for facts in CODECS.values() if facts.levels])
def test_every_level_reads_back(codec: Codec) -> None:
    """Each level of each codec gives something readable; zstd's range is sampled."""
    levels = CODECS[codec].levels
    negative = [-131_072, -1_000, -7, -1, 0]
    wanted = [*negative, *range(1, 23)] if codec is Codec.ZSTD else range(1, levels.maximum + 1)
    payload = b"value of the record 0123456789" * 200
    for level in [levels.default, *wanted]:
        assert levels.allows(level)
        assert decompress(codec, compress(codec, payload, level)) == payload


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.GZIP, -2),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.ZSTD, -131_073),
        (Codec.SNAPPY, 1),
        (Codec.NONE, 1),
    ],
)
def test_level_out_of_range(codec: Codec, level: int) -> None:
    """A level the codec lacks is rejected, by name and number."""
    with pytest.raises(ConfigError, match=f"{codec.name.lower()}.*{level}"):
        compressor(codec, level)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_needs_v2(magic: int) -> None:
    """Formats V0 and V1 have no zstd, to write or to read."""
    with pytest.raises(UnsupportedCodec, match=f"not V{magic}"):
        compressor(Codec.ZSTD, magic=magic)
    with pytest.raises(CorruptRecord, match=f"V{magic} has no codec 4"):
        decompress(Codec.ZSTD, zstandard.compress(b"x"), magic=magic)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codec(codec: int) -> None:
    """A codec number without meaning is corrupt."""
    with pytest.raises(CorruptRecord, match=f"no codec {codec}"):
        decompress(codec, b"")


def test_none_returns_payload() -> None:
    """Without a codec nothing is copied on the way out."""
    payload = bytearray(b"records")
    assert compress(Codec.NONE, payload) is payload
    assert decompress(Codec.NONE, payload) == b"records"


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(codec: Codec, kind: type[bytes | bytearray | memoryview]) -> None:
    """Bytes, bytearray and memoryview are taken on both sides."""
    packed = compress(codec, kind(b"records" * 50))
    assert decompress(codec, kind(packed)) == b"records" * 50


@pytest.mark.parametrize("codec", COMPRESSING)
def test_truncated_at_every_byte(codec: Codec) -> None:
    """A block cut anywhere is corrupt; snappy's stream without blocks alone is a shorter stream."""
    packed = bytes(compress(codec, b"key and value " * 40))
    whole_stream = 16 if codec is Codec.SNAPPY else None
    for length in range(len(packed)):
        if length == whole_stream:
            assert decompress(codec, packed[:length]) == b""
            continue
        with pytest.raises(CorruptRecord):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("garbage", [b"\x00", b"x", b"garbage after the end", bytes(64)])
def test_trailing_garbage(codec: Codec, garbage: bytes) -> None:
    """Bytes after the end of a block are corrupt."""
    with pytest.raises(CorruptRecord):
        decompress(codec, bytes(compress(codec, b"key and value " * 40)) + garbage)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(place=st.integers(0, 2**16), byte=st.integers(0, 255), payload=payloads)
def test_one_byte_wrong(codec: Codec, place: int, byte: int, payload: bytes) -> None:
    """A damaged block is read within its bounds or is corrupt, and nothing else happens."""
    packed = bytearray(compress(codec, payload))
    packed[place % len(packed)] = byte
    try:
        out = decompress(codec, packed, limit_bytes=1 << 20)
    except CorruptRecord:
        out = b""
    assert len(out) <= 1 << 20


@pytest.mark.parametrize("codec", COMPRESSING)
def test_limit_is_exact(codec: Codec) -> None:
    """Output of just the limit is read, one byte more is not."""
    packed = compress(codec, b"ab" * 50_000)
    assert len(decompress(codec, packed, limit_bytes=100_000)) == 100_000
    with pytest.raises(CorruptRecord, match="99999 bytes"):
        decompress(codec, packed, limit_bytes=99_999)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bombs_stop_at_64_mib(codec: Codec) -> None:
    """65 MiB of zeros are not read, however few bytes they take."""
    packed = compress(codec, bytes(65 << 20))
    with pytest.raises(CorruptRecord, match="grow past"):
        decompress(codec, packed)


def test_ratio_counts_past_4_mib() -> None:
    """Zstd reaches 10,000 : 1; such a block is read up to 4 MiB and rejected beyond."""
    assert len(decompress(Codec.ZSTD, compress(Codec.ZSTD, bytes(4 << 20)))) == 4 << 20
    packed = compress(Codec.ZSTD, bytes(16 << 20))
    assert 1_000 * len(packed) < (16 << 20)
    with pytest.raises(CorruptRecord, match=f"{len(packed)} compressed bytes grow past 4194304"):
        decompress(Codec.ZSTD, packed)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size_bytes", [300_000, 2 << 20, 8 << 20])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_memory_of_decompression(codec: Codec, size_bytes: int, share: float) -> None:
    """The output grows by an eighth at most, beside two steps of the library."""
    rng, noise_bytes = random.Random(3), round(1_000 * share)
    row = bytes(1_000 - noise_bytes)
    payload = b"".join(rng.randbytes(noise_bytes) + row for _ in range(size_bytes // 1_000))
    packed = [bytes(compress(codec, payload))]
    if codec is Codec.ZSTD:
        packer = zstandard.ZstdCompressor().compressobj()
        packed.append(packer.compress(payload) + packer.flush())
    for block in packed:
        decompress(codec, block)  # imports the library
        tracemalloc.start()
        try:
            assert decompress(codec, block) == payload
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak_bytes <= len(payload) * 9 // 8 + 3 * STEP_BYTES


@pytest.mark.parametrize("codec", COMPRESSING)
def test_compression_gives_up_the_interpreter_lock(codec: Codec) -> None:
    """While a batch is compressed another thread runs, which nothing else here would let it."""
    pack = compressor(codec)
    payload = bytes(range(256)) * 4_096
    asked, ran = threading.Lock(), threading.Event()
    asked.acquire()

    def wait_and_run() -> None:
        with asked:
            ran.set()

    other = threading.Thread(target=wait_and_run)
    other.start()
    before_s = sys.getswitchinterval()
    # From here on the lock goes to another thread only when someone gives it up.
    sys.setswitchinterval(1_000)
    try:
        asked.release()
        rounds = next((count for count in range(1_000) if pack(payload) and ran.is_set()), None)
    finally:
        sys.setswitchinterval(before_s)
    other.join(60)
    assert rounds is not None


def test_compressors_do_not_share_a_context() -> None:
    """Each thread with its own compressor, all at once, gets its own payload back."""
    failures: list[bytes] = []

    def work(byte: bytes) -> None:
        pack = compressor(Codec.ZSTD, 1)
        for count in range(1, 60):
            payload = byte * (count * 997)
            if decompress(Codec.ZSTD, pack(payload)) != payload:
                failures.append(byte)

    threads = [threading.Thread(target=work, args=(bytes((65 + number,)),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_every_codec_has_its_facts_and_functions() -> None:
    """A codec without a row, a setting for its levels or a function is found here."""
    settings = set(ProducerConfig.fields)

    assert list(CODECS) == list(Codec)
    for facts in CODECS.values():
        assert decompress(facts.codec, compress(facts.codec, b"value " * 9)) == b"value " * 9
        assert (facts.level_setting in settings) == bool(facts.levels)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_have_the_codecs_that_the_facts_say(codec: Codec, magic: int) -> None:
    """The compiled writer of message sets draws the line where the table does."""
    rows = [(0, 0, b"key", b"value")]

    if magic < CODECS[codec].first_magic:
        with pytest.raises(UnsupportedCodec):
            encode_message_set(rows, magic=magic, codec=codec, compress=None)
    else:
        written = write_message_set(rows, magic=magic, codec=codec)
        assert [row[3] for entry in read_message_set(written) for row in entry] == [b"value"]
