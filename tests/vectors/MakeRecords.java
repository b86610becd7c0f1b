// Prints record vectors made by Apache Kafka's own client library, as JSON.
//
//   mvn dependency:copy-dependencies of org.apache.kafka:kafka-clients:3.9.1 into LIB, then
//   java -cp 'LIB/*' tests/vectors/MakeRecords.java 2026-11-21 > tests/vectors/records_kafka_clients.json
//
// 3.9.1 is the last line that still writes magic 0 and 1. What stands under "records" is what the
// library reads back out of the bytes.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.AppInfoParser;

public class MakeRecords {
    static final long TIME = 1_700_000_000_000L;
    static final Header[] NONE = new Header[0];
    static final List<String> vectors = new ArrayList<>();

    public static void main(String[] arguments) {
        for (CompressionType codec : CompressionType.values()) {
            for (byte magic = 0; magic <= 2; magic++) {
                if (codec == CompressionType.ZSTD && magic < 2) continue;
                plain(magic, codec, 0, TimestampType.CREATE_TIME);
                plain(magic, codec, 5_000, TimestampType.CREATE_TIME);
                if (magic > 0) plain(magic, codec, 70, TimestampType.LOG_APPEND_TIME);
                gaps(magic, codec);
            }
            transactional(codec);
            deleteHorizon(codec);
        }
        controlBatches();
        System.out.println("{");
        System.out.println("\"client\": \"org.apache.kafka:kafka-clients\",");
        System.out.println("\"version\": \"" + AppInfoParser.getVersion() + "\",");
        System.out.println("\"command\": \"java -cp 'LIB/*' tests/vectors/MakeRecords.java\",");
        System.out.println("\"date\": \"" + arguments[0] + "\",");
        System.out.println("\"vectors\": [\n" + String.join(",\n", vectors) + "\n]\n}");
    }

    static void plain(byte magic, CompressionType codec, long baseOffset, TimestampType type) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(8192), magic, Compression.of(codec).build(), type, baseOffset, TIME + 900);
        fill(builder, magic);
        add(type == TimestampType.CREATE_TIME ? "plain" : "log append time", builder.build());
    }

    static void fill(MemoryRecordsBuilder builder, byte magic) {
        Header[] headers = magic < 2 ? NONE : new Header[] {
            new RecordHeader("h", bytes("x")), new RecordHeader("n", null), new RecordHeader("h", bytes(""))};
        Header[] unicode = magic < 2 ? NONE : new Header[] {new RecordHeader("ключ", bytes("重复"))};
        append(builder, 0, "k0", "v0", NONE);
        append(builder, 5, null, "v1", headers);
        append(builder, -3, "", "", NONE);
        append(builder, 5, "k3", null, unicode);
        append(builder, 70_000, "long", "abcdefgh".repeat(20), NONE);
    }

    static void append(MemoryRecordsBuilder builder, long delta, String key, String value, Header[] headers) {
        builder.append(TIME + delta, bytes(key), bytes(value), headers);
    }

    static void gaps(byte magic, CompressionType codec) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(8192), magic, Compression.of(codec).build(), TimestampType.CREATE_TIME, 100L);
        for (long offset : new long[] {100, 103, 110})
            builder.appendWithOffset(offset, TIME + offset, bytes("k" + offset), bytes("v"), NONE);
        add("gaps", builder.build());
    }

    static void transactional(CompressionType codec) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(8192), (byte) 2, Compression.of(codec).build(), TimestampType.CREATE_TIME,
            0L, RecordBatch.NO_TIMESTAMP, 4242L, (short) 7, 100, true, 3);
        fill(builder, (byte) 2);
        add("transactional", builder.build());
    }

    static void deleteHorizon(CompressionType codec) {
        ByteBuffer buffer = ByteBuffer.allocate(8192);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new org.apache.kafka.common.utils.ByteBufferOutputStream(buffer), (byte) 2,
            Compression.of(codec).build(), TimestampType.CREATE_TIME, 9L, RecordBatch.NO_TIMESTAMP,
            -1L, (short) -1, -1, false, false, 5, 8192, TIME + 86_400_000L);
        fill(builder, (byte) 2);
        add("delete horizon", builder.build());
    }

    static void controlBatches() {
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT})
            add(type.name().toLowerCase() + " marker", MemoryRecords.withEndTransactionMarker(
                77L, TIME, 2, 4242L, (short) 7, new EndTransactionMarker(type, 3)));
    }

    static void add(String name, MemoryRecords made) {
        byte[] raw = new byte[made.sizeInBytes()];
        made.buffer().duplicate().get(raw);
        RecordBatch batch = made.batches().iterator().next();
        List<String> records = new ArrayList<>();
        for (Record record : made.records()) records.add(row(record));
        vectors.add("{\"name\": \"" + name + "\", \"magic\": " + batch.magic()
            + ", \"codec\": " + batch.compressionType().id
            + ",\n \"hex\": \"" + HexFormat.of().formatHex(raw)
            + "\",\n \"records\": [" + String.join(", ", records) + "]}");
    }

    static String row(Record record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add("[\"" + header.key() + "\", "
                + (header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value()))) + "]");
        return "[" + record.offset() + ", " + record.timestamp() + ", "
            + (record.hasKey() ? hex(record.key()) : "null") + ", "
            + (record.hasValue() ? hex(record.value()) : "null") + ", [" + String.join(", ", headers) + "]]";
    }

    static String hex(ByteBuffer buffer) {
        byte[] raw = new byte[buffer.remaining()];
        buffer.duplicate().get(raw);
        return "\"" + HexFormat.of().formatHex(raw) + "\"";
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
