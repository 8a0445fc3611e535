import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** As transaction_loop.py: TransactionLoop PROTOCOL BOOTSTRAP INPUT OUTPUT ID, where PROTOCOL is classic or consumer. */
public final class TransactionLoop {
    private static final BufferedReader INSTRUCTIONS = new BufferedReader(new InputStreamReader(System.in));

    private final String bootstrap;
    private final String input;
    private final String output;
    private final String id;
    private KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private TransactionLoop(String[] arguments) {
        bootstrap = arguments[1];
        input = arguments[2];
        output = arguments[3];
        id = arguments[4];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", id);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "3");
        settings.put("group.protocol", arguments[0]);
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        start();
    }

    private void start() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", "3000");
        settings.put("linger.ms", "0");
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
    }

    private static void report(String line) {
        System.out.println(line);
    }

    public static void main(String[] arguments) throws Exception {
        TransactionLoop loop = new TransactionLoop(arguments);
        report("ready");
        for (String line = INSTRUCTIONS.readLine(); line != null; line = INSTRUCTIONS.readLine()) {
            switch (line) {
                case "subscribe" -> {
                    loop.consumer.subscribe(List.of(loop.input));
                    report("subscribed");
                }
                case "restart" -> {
                    loop.producer.close(Duration.ZERO);
                    loop.start();
                    loop.rewind();
                    report("ready");
                }
                default -> loop.transaction(line);
            }
        }
        loop.consumer.close();
        loop.producer.close(Duration.ZERO);
    }

    private void transaction(String instruction) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(500)).forEach(records::add);
        if (records.isEmpty()) {
            report("idle");
            return;
        }
        try {
            write(records);
            if (instruction.equals("commit")) {
                producer.commitTransaction();
                report("committed");
                return;
            }
            producer.flush();
            if (instruction.equals("abort")) {
                producer.abortTransaction();
                rewind();
                report("aborted");
                return;
            }
            report("holding");
            INSTRUCTIONS.readLine();
            producer.commitTransaction();
            report("committed");
        } catch (ProducerFencedException error) {
            report("fatal " + error);
        } catch (RuntimeException error) {
            abortAfter(error);
        }
    }

    private void write(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            producer.send(new ProducerRecord<>(output, one.partition(), null, one.value()));
            offsets.put(new TopicPartition(input, one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    private void abortAfter(RuntimeException error) {
        try {
            producer.abortTransaction();
        } catch (RuntimeException second) {
            report("fatal " + error + ", then " + second);
            return;
        }
        rewind();
        report("failed " + error);
    }

    /** Goes back to the committed offsets. */
    private void rewind() {
        consumer.committed(consumer.assignment()).forEach((where, offset) -> consumer.seek(where, offset == null ? 0 : offset.offset()));
    }
}
