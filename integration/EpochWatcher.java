import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * EpochWatcher BOOTSTRAP TOPIC=POLICY...: for each topic a consumer of its partition 0, in a group named as the topic, with that
 * auto.offset.reset. It begins where the group has committed, or at the beginning. Prints what each reads, or that it has seen a
 * truncation, which is the last of it. On its standard input, c commits, q ends it.
 */
public class EpochWatcher {
    static void say(String topic, String what, long offset, String value) {
        System.out.println("[\"" + topic + "\", \"" + what + "\", " + offset + ", \"" + value + "\"]");
    }

    public static void main(String[] args) throws Exception {
        Map<String, KafkaConsumer<String, String>> consumers = new LinkedHashMap<>();
        for (String one : Arrays.asList(args).subList(1, args.length)) {
            String topic = one.split("=")[0];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", args[0]);
            settings.put("group.id", topic);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", one.split("=")[1]);
            StringDeserializer text = new StringDeserializer();
            KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text);
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            if (consumer.committed(consumer.assignment()).get(new TopicPartition(topic, 0)) == null) {
                consumer.seekToBeginning(consumer.assignment());
            }
            consumers.put(topic, consumer);
        }
        Set<String> stopped = new HashSet<>();
        while (true) {
            for (Map.Entry<String, KafkaConsumer<String, String>> each : consumers.entrySet()) {
                if (stopped.contains(each.getKey())) {
                    continue;
                }
                try {
                    for (ConsumerRecord<String, String> record : each.getValue().poll(Duration.ofMillis(50))) {
                        say(each.getKey(), "read", record.offset(), record.value());
                    }
                } catch (LogTruncationException gone) {
                    say(each.getKey(), "truncated", gone.divergentOffsets().values().stream()
                        .mapToLong(where -> where.offset()).findFirst().orElse(-1), "");
                    stopped.add(each.getKey());
                } catch (InvalidOffsetException other) {
                    say(each.getKey(), "invalid", -1, other.getClass().getSimpleName());
                    stopped.add(each.getKey());
                }
            }
            int command = System.in.available() > 0 ? System.in.read() : 0;
            if (command == 'c') {
                for (KafkaConsumer<String, String> consumer : consumers.values()) {
                    consumer.commitSync();
                }
                say("", "committed", -1, "");
            } else if (command == 'q') {
                break;
            }
        }
        for (KafkaConsumer<String, String> consumer : consumers.values()) {
            consumer.close(Duration.ofSeconds(1));
        }
    }
}
