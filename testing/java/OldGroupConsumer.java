import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Joins GROUP, reads COUNT records of a topic, commits, and prints how many it read and what is committed of partition 0. */
public class OldGroupConsumer {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(args[1]));
        int read = 0;
        while (read < Integer.parseInt(args[3])) {
            for (ConsumerRecord<String, String> record : consumer.poll(1000)) {
                read++;
            }
        }
        consumer.commitSync();
        System.out.println(read + " " + consumer.committed(new TopicPartition(args[1], 0)).offset());
        consumer.close();
    }
}
