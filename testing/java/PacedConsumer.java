import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * A Java consumer that reads only as far as it is asked to, as paced_consumer.py does: BOOTSTRAP TOPIC LAST [name=value]...
 *
 * Each line of stdin is a number of records, each line of stdout has the offsets of as many, or of fewer at the end.
 */
public class PacedConsumer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.partition.fetch.bytes", "4000");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        for (int i = 3; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        long last = Long.parseLong(args[2]);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        if (settings.containsKey("group.id")) {
            consumer.subscribe(Collections.singletonList(args[1]));
        } else {
            consumer.assign(Collections.singletonList(new TopicPartition(args[1], 0)));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Iterator<ConsumerRecord<byte[], byte[]>> records = Collections.emptyIterator();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> found = new ArrayList<>();
            for (int left = Integer.parseInt(line); left > 0; left--) {
                while (!records.hasNext()) {
                    records = consumer.poll(1000).iterator();
                }
                long offset = records.next().offset();
                found.add(Long.toString(offset));
                if (offset >= last) {
                    break;
                }
            }
            System.out.println(String.join(" ", found));
        }
        consumer.close();
    }
}
