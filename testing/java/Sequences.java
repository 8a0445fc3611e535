import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** As testing/clients/sequences: Sequences CLIENT BOOTSTRAP PARTITIONS RATE TOPIC..., where CLIENT is java or java-consumer. */
public final class Sequences {
    private static final String NAME = "java";
    private static final BufferedReader INSTRUCTIONS = new BufferedReader(new InputStreamReader(System.in));

    private final String protocol;
    private final String bootstrap;
    private final int partitions;
    private final double rate;
    private final List<String> topics;
    private volatile boolean isOver;
    private volatile long sent;

    private Sequences(String[] arguments) {
        protocol = arguments[0].endsWith("-consumer") ? "consumer" : "classic";
        bootstrap = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        rate = Double.parseDouble(arguments[3]);
        topics = List.of(arguments).subList(4, arguments.length);
    }

    private interface Role {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Sequences client = new Sequences(arguments);
        Thread writing = start("write", client::write);
        Thread transacting = start("transact", client::transact);
        Thread reading = start("follow", client::follow);
        INSTRUCTIONS.readLine();
        client.isOver = true;
        writing.join();
        transacting.join();
        report("stopped " + client.sent);
        reading.join();
        INSTRUCTIONS.readLine();
        client.readAll();
        report("done");
    }

    private static Thread start(String name, Role role) {
        Thread thread = new Thread(() -> {
            try {
                role.run();
            } catch (Exception error) {
                report("broken " + name + " " + error);
                error.printStackTrace();
            }
        }, name);
        thread.start();
        return thread;
    }

    private static void report(String lines) {
        synchronized (System.out) {
            System.out.println(lines);
        }
    }

    private KafkaProducer<String, String> producer(String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "2");
        settings.put("request.timeout.ms", "5000");
        settings.put("metadata.max.age.ms", "500");  // as METADATA_AGE_MS of roles.py
        if (!id.isEmpty()) {
            settings.put("transactional.id", id);
            settings.put("transaction.timeout.ms", "10000");
        }
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private void write() throws Exception {
        try (KafkaProducer<String, String> producer = producer("")) {
            long began = System.nanoTime();
            for (long number = 0; !isOver; number++) {
                long mine = number;
                producer.send(new ProducerRecord<>(NAME, (int) (number % partitions), null, "" + number), (found, error) ->
                    report(error == null ? "acked " + mine + " " + found.offset() : "failed " + mine + " " + error));
                sent = number + 1;
                long aheadMs = (long) (1000 * number / rate) - (System.nanoTime() - began) / 1_000_000;
                Thread.sleep(Math.max(0, aheadMs));
            }
            producer.flush();
        }
    }

    private void transact() throws Exception {
        KafkaProducer<String, String> producer = null;
        for (long number = 0; !isOver; number++) {
            try {
                if (producer == null) {
                    producer = producer(NAME + "-transactions");
                    producer.initTransactions();
                }
                transaction(producer, number);
            } catch (KafkaException | IllegalStateException error) {
                report("unknown " + number + " " + error);
                producer = ended(producer);
            }
            Thread.sleep(125);
        }
        if (producer != null) {
            producer.close();
        }
    }

    private void transaction(KafkaProducer<String, String> producer, long number) {
        int here = (int) (number % partitions);
        int there = (int) ((number + 1) % partitions);
        Callback noted = (found, error) -> { };
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("left", here, null, NAME + ":" + number), noted);
        producer.send(new ProducerRecord<>("right", here, null, NAME + ":" + number), noted);
        producer.send(new ProducerRecord<>("right", there, null, NAME + ":" + number + "+"), noted);
        if (number % 5 == 4) {
            producer.flush();
            producer.abortTransaction();
            report("aborted " + number);
        } else {
            producer.commitTransaction();
            report("committed " + number);
        }
    }

    private static KafkaProducer<String, String> ended(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
        } catch (KafkaException | IllegalStateException error) {
            producer.close(Duration.ZERO);
            return null;
        }
        return producer;
    }

    private KafkaConsumer<String, String> consumer(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("metadata.max.age.ms", "500");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        if (!group.isEmpty()) {
            settings.put("group.id", group);
            settings.put("group.protocol", protocol);
            if (protocol.equals("classic")) {
                settings.put("session.timeout.ms", "6000");
                settings.put("heartbeat.interval.ms", "500");
            }
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private Set<TopicPartition> everything() {
        Set<TopicPartition> found = new HashSet<>();
        for (String topic : topics) {
            for (int number = 0; number < partitions; number++) {
                found.add(new TopicPartition(topic, number));
            }
        }
        return found;
    }

    /** Reports records, and removes the partitions that end with them from those that are left. */
    private static Map<TopicPartition, OffsetAndMetadata> read(String word, KafkaConsumer<String, String> from, Set<TopicPartition> left) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        List<String> lines = new ArrayList<>();
        for (ConsumerRecord<String, String> one : from.poll(Duration.ofMillis(200))) {
            TopicPartition where = new TopicPartition(one.topic(), one.partition());
            lines.add(word + " " + one.topic() + " " + one.partition() + " " + one.offset() + " " + one.value());
            ends.put(where, new OffsetAndMetadata(one.offset() + 1));
            if (one.value().equals("end")) {
                left.remove(where);
            }
        }
        if (!lines.isEmpty()) {
            report(String.join("\n", lines));
        }
        return ends;
    }

    private void follow() {
        try (KafkaConsumer<String, String> consumer = consumer(NAME + "-group")) {
            consumer.subscribe(topics);
            Set<TopicPartition> left = everything();
            while (!left.isEmpty()) {
                Map<TopicPartition, OffsetAndMetadata> ends = read("read", consumer, left);
                if (ends.isEmpty()) {
                    continue;
                }
                try {
                    consumer.commitSync(ends);
                } catch (KafkaException error) {
                    continue;
                }
                ends.forEach((where, end) -> report("stored " + where.topic() + " " + where.partition() + " " + end.offset()));
            }
        }
    }

    private void readAll() {
        try (KafkaConsumer<String, String> consumer = consumer("")) {
            Set<TopicPartition> left = everything();
            consumer.assign(left);
            consumer.seekToBeginning(left);
            while (!left.isEmpty()) {
                read("last", consumer, left);
            }
        }
    }
}
