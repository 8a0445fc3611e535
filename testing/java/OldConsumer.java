import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Reads COUNT records of partition 0 from the beginning with a Java client of long ago, and prints offset and value. */
public class OldConsumer {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        TopicPartition partition = new TopicPartition(args[1], 0);
        consumer.assign(Collections.singleton(partition));
        consumer.seek(partition, 0L);
        int left = Integer.parseInt(args[2]);
        while (left > 0) {
            for (ConsumerRecord<String, String> record : consumer.poll(1000)) {
                System.out.println(record.offset() + " " + record.timestamp() + " " + record.value());
                left--;
            }
        }
        consumer.close();
    }
}
