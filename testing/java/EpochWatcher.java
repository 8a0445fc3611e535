import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
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
 * truncation, which is the last of it. On its standard input, n makes one more set of such consumers, c lets the first set commit,
 * q ends it. What is printed begins with the number of the set.
 */
public class EpochWatcher {
    static class Reader {
        int set;
        String topic;
        boolean isStopped;
        KafkaConsumer<String, String> consumer;

        void report(String what, long offset, String value) {
            System.out.println("[" + set + ", \"" + topic + "\", \"" + what + "\", " + offset + ", \"" + value + "\"]");
        }

        void read() {
            try {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(20))) {
                    report("read", record.offset(), record.value());
                }
            } catch (LogTruncationException gone) {
                report("truncated", -1, "");
                isStopped = true;
            } catch (InvalidOffsetException other) {
                report("invalid", -1, other.getClass().getSimpleName());
                isStopped = true;
            }
        }
    }

    static void add(List<Reader> readers, int set, String[] args) {
        for (String one : Arrays.asList(args).subList(1, args.length)) {
            Reader reader = new Reader();
            reader.set = set;
            reader.topic = one.split("=")[0];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", args[0]);
            settings.put("group.id", reader.topic);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", one.split("=")[1]);
            StringDeserializer text = new StringDeserializer();
            reader.consumer = new KafkaConsumer<>(settings, text, text);
            TopicPartition partition = new TopicPartition(reader.topic, 0);
            reader.consumer.assign(List.of(partition));
            if (reader.consumer.committed(Set.of(partition)).get(partition) == null) {
                reader.consumer.seekToBeginning(List.of(partition));
            }
            readers.add(reader);
        }
    }

    public static void main(String[] args) throws Exception {
        List<Reader> readers = new ArrayList<>();
        int sets = 1;
        add(readers, 0, args);
        while (true) {
            for (Reader reader : readers) {
                if (!reader.isStopped) {
                    reader.read();
                }
            }
            int command = System.in.available() > 0 ? System.in.read() : 0;
            if (command == 'n') {
                add(readers, sets++, args);
            } else if (command == 'c') {
                for (Reader reader : readers) {
                    if (reader.set == 0) {
                        reader.consumer.commitSync();
                        reader.report("committed", -1, "");
                    }
                }
            } else if (command == 'q') {
                System.exit(0); // its groups have no members that must leave
            }
        }
    }
}
