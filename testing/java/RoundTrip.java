import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sends a record to a topic and reads it in a group: BOOTSTRAP TOPIC. Prints the value, or what the producer failed with. */
public final class RoundTrip {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";

    public static void main(String[] arguments) throws InterruptedException {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        Map<String, Object> sending = Map.of(
            "bootstrap.servers", bootstrap, "key.serializer", STRINGS + "Serializer", "value.serializer", STRINGS + "Serializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(sending)) {
            producer.send(new ProducerRecord<>(topic, "1")).get();
        } catch (ExecutionException error) {
            System.out.println(error.getCause().getClass().getSimpleName());
            return;
        } catch (RuntimeException error) {
            System.out.println(error.getClass().getSimpleName());
            return;
        }
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap, "key.deserializer", STRINGS + "Deserializer",
            "value.deserializer", STRINGS + "Deserializer", "group.id", topic, "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
            consumer.subscribe(List.of(topic));
            ConsumerRecords<String, String> records;
            do {
                records = consumer.poll(Duration.ofSeconds(1));
            } while (records.isEmpty());
            System.out.println(records.iterator().next().value());
        }
    }
}
