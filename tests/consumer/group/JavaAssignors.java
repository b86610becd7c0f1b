import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Computes assignments by Kafka's own assignors, one group after the other.
 *
 * <p>Input, a line each: "topic NAME RACKS…" with the racks of one partition's replicas each,
 * separated by commas, or "-"; "member ID INSTANCE SUBSCRIPTION" with the bytes in hexadecimal;
 * "assign NAME". Output: for each member "ID ASSIGNMENT SUBSCRIPTION", both as Java writes them.
 */
public class JavaAssignors {
    private static final HexFormat HEX = HexFormat.of();
    private static final List<Node> NODES = List.of(
        new Node(0, "host", 9092), new Node(1, "host", 9092), new Node(2, "host", 9092));

    public static void main(String[] arguments) throws Exception {
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<String, Subscription> members = new HashMap<>();
        StringBuilder out = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> addTopic(words, partitions);
                case "member" -> {
                    Subscription subscription = ConsumerProtocol.deserializeSubscription(
                        ByteBuffer.wrap(HEX.parseHex(words[3])));
                    if (!words[2].equals("-"))
                        subscription.setGroupInstanceId(Optional.of(words[2]));
                    members.put(words[1], subscription);
                }
                default -> {
                    assign(words[1], partitions, members, out);
                    partitions.clear();
                    members.clear();
                }
            }
        }
        System.out.print(out);
    }

    private static void addTopic(String[] words, List<PartitionInfo> partitions) {
        for (int at = 2; at < words.length; at++) {
            String[] racks = words[at].equals("-") ? new String[0] : words[at].split(",");
            Node[] nodes = new Node[Math.max(1, racks.length)];
            nodes[0] = new Node(0, "host", 9092);
            for (int each = 0; each < racks.length; each++)
                nodes[each] = new Node(each, "host", 9092, racks[each]);
            partitions.add(new PartitionInfo(words[1], at - 2, nodes[0], nodes, nodes));
        }
    }

    private static void assign(String name, List<PartitionInfo> partitions,
                               Map<String, Subscription> members, StringBuilder out) {
        ConsumerPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, String> bytes = new HashMap<>();
        members.forEach((id, each) -> bytes.put(id, hex(ConsumerProtocol.serializeSubscription(each))));
        Cluster cluster = new Cluster("c", NODES, partitions, Set.of(), Set.of());
        assignor.assign(cluster, new GroupSubscription(members)).groupAssignment().forEach(
            (id, assignment) -> out.append(id).append(' ')
                .append(hex(ConsumerProtocol.serializeAssignment(assignment))).append(' ')
                .append(bytes.get(id)).append('\n'));
        out.append(".\n");
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
