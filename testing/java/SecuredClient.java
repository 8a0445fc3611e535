import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's clients at a listener with TLS or logins, of any release since 0.9. Each line of stdin is a job: TOPIC, SECONDS and then
 * settings, with tabs between them. A producer writes numbers for that long, at least one, while a consumer reads them. Each line
 * of stdout is a result: how many were read in their order and how many were written, or the error's simple name and its message.
 */
public class SecuredClient {
    private static final int PAUSE_MS = 20;

    public static void main(String[] arguments) throws Exception {
        PrintStream results = System.out;
        System.setOut(System.err); // Kafka 4 logs to it
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            results.println(done(line.split("\t")).replace('\n', ' '));
        }
    }

    private static String done(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("max.block.ms", "60000");
        settings.put("retries", "100");
        settings.put("max.in.flight.requests.per.connection", "1");
        for (int i = 2; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        try {
            return roundTrip(words[0], Double.parseDouble(words[1]), settings);
        } catch (ExecutionException error) {
            return described(error.getCause());
        } catch (RuntimeException error) {
            return described(error);
        }
    }

    private static String described(Throwable error) {
        return error.getClass().getSimpleName() + "\t" + error.getMessage();
    }

    private static String roundTrip(String topic, double seconds, Properties settings) throws Exception {
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        KafkaConsumer<String, String> consumer = null;
        List<String> values = new ArrayList<>();
        int sent = 0;
        try {
            long end = System.nanoTime() + (long) (seconds * 1e9);
            do {
                producer.send(new ProducerRecord<String, String>(topic, 0, null, Integer.toString(sent))).get();
                sent++;
                if (consumer == null) {
                    consumer = consumer(topic, settings);
                }
                take(consumer, values, 0);
                Thread.sleep(seconds > 0 ? PAUSE_MS : 0);
            } while (System.nanoTime() < end);
            while (values.size() < sent) {
                take(consumer, values, 200);
            }
        } finally {
            producer.close();
            if (consumer != null) {
                consumer.close();
            }
        }
        for (int i = 0; i < values.size(); i++) {
            if (!values.get(i).equals(Integer.toString(i))) {
                return "OutOfOrder\t" + values;
            }
        }
        return values.size() + "\t" + sent;
    }

    private static KafkaConsumer<String, String> consumer(String topic, Properties settings) {
        Properties reading = new Properties();
        reading.putAll(settings);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(Collections.singletonList(partition));
        consumer.seek(partition, 0L);
        return consumer;
    }

    @SuppressWarnings("deprecation")
    private static void take(KafkaConsumer<String, String> consumer, List<String> values, long ms) {
        for (ConsumerRecord<String, String> record : poll(consumer, ms)) {
            values.add(record.value());
        }
    }

    /** `poll(long)` is gone in Kafka 4, and `poll(Duration)` came with Kafka 2. */
    @SuppressWarnings("unchecked")
    private static Iterable<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, long ms) {
        try {
            try {
                return (Iterable<ConsumerRecord<String, String>>)
                    KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, java.time.Duration.ofMillis(ms));
            } catch (NoSuchMethodException error) {
                return (Iterable<ConsumerRecord<String, String>>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, ms);
            }
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw (RuntimeException) error.getCause();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
