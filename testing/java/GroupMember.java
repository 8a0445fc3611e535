import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** As group_member.py: GroupMember PROTOCOL BOOTSTRAP GROUP TOPIC [INSTANCE], where PROTOCOL is classic or consumer. */
public class GroupMember {
    static void report(String what, int partition, long offset) {
        System.out.println("[" + System.nanoTime() + ", \"" + what + "\", " + partition + ", " + offset + "]");
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("group.id", args[2]);
        settings.put("group.protocol", args[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        if (args[0].equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        if (args.length > 4) {
            settings.put("group.instance.id", args[4]);
        }
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                revoked.forEach(one -> report("revoked", one.partition(), -1));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                assigned.forEach(one -> report("assigned", one.partition(), -1));
            }
        };
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(args[3]), listener);
            boolean isOver = false;
            while (!isOver) {
                isOver = System.in.available() > 0;
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    report("read", record.partition(), record.offset());
                    ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                if (!ends.isEmpty()) {
                    try {
                        consumer.commitSync(ends);
                        ends.forEach((where, end) -> report("committed", where.partition(), end.offset()));
                    } catch (KafkaException error) {
                        System.err.println(error); // a rebalance came between: another member reads them again
                    }
                }
            }
        }
    }
}
