import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's clients beside a broker with faults, many in one JVM. Each line of stdin is a command, each line of stdout its result:
 *
 *     produce BOOTSTRAP TOPIC COUNT [name=value]...   sends 0, 1, 2 and so on one by one; prints the values that were acknowledged
 *     consume BOOTSTRAP TOPIC COUNT                   prints the values and the errors of polls, after which it reads on from there
 *     begin BOOTSTRAP TOPIC ID                        begins a transaction, with a record that is acknowledged
 *     commit TOPIC                                    sends another record and commits; prints the error's simple name, or ok
 *     join BOOTSTRAP GROUP TOPIC PROTOCOL             becomes a member; prints its events so far: assigned, then all that follow
 *     events COUNT                                    polls until there are this many events; prints them
 *     leave                                           closes the consumer
 */
public class FaultyBroker {
    private static KafkaProducer<String, String> transactional;
    private static KafkaConsumer<String, String> member;
    private static final List<String> events = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(String.join(" ", done(line.split(" "))));
        }
    }

    private static List<String> done(String[] words) throws Exception {
        return switch (words[0]) {
            case "produce" -> produce(words);
            case "consume" -> consume(words[1], words[2], Integer.parseInt(words[3]));
            case "begin" -> begin(words[1], words[2], words[3]);
            case "commit" -> commit(words[1]);
            case "join" -> join(words[1], words[2], words[3], words[4]);
            case "events" -> polled(Integer.parseInt(words[1]));
            case "leave" -> leave();
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("retry.backoff.ms", "50");
        settings.put("reconnect.backoff.ms", "20");
        return settings;
    }

    private static List<String> produce(String[] words) throws Exception {
        Properties settings = settings(words[1]);
        settings.put("linger.ms", "0");
        for (int i = 4; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        List<String> acknowledged = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < Integer.parseInt(words[3]); number++) {
                String value = Integer.toString(number);
                try {
                    producer.send(new ProducerRecord<>(words[2], 0, null, value)).get();
                    acknowledged.add(value);
                } catch (ExecutionException error) {
                    acknowledged.add(name(error.getCause()));
                }
            }
        }
        return acknowledged;
    }

    private static List<String> consume(String bootstrap, String topic, int count) {
        List<String> found = new ArrayList<>();
        try (var consumer = consumer(settings(bootstrap))) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            for (int left = count; left > 0; ) {
                try {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                        found.add(record.value());
                        left--;
                    }
                } catch (KafkaException error) {
                    found.add(name(error));
                    long position = consumer.position(partitions.get(0));
                    consumer.unsubscribe(); // else each poll raises it, also after a seek to the same position
                    consumer.assign(partitions);
                    consumer.seek(partitions.get(0), position);
                }
            }
        }
        return found;
    }

    private static KafkaConsumer<String, String> consumer(Properties settings) {
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> begin(String bootstrap, String topic, String id) throws Exception {
        Properties settings = settings(bootstrap);
        settings.put("transactional.id", id);
        transactional = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        transactional.initTransactions();
        transactional.beginTransaction();
        transactional.send(new ProducerRecord<>(topic, "first")).get();
        return List.of("ok");
    }

    private static List<String> commit(String topic) {
        try (var producer = transactional) {
            producer.send(new ProducerRecord<>(topic, "second"));
            producer.commitTransaction();
            return List.of("ok");
        } catch (KafkaException error) {
            return List.of(name(error));
        }
    }

    private static List<String> join(String bootstrap, String group, String topic, String protocol) {
        Properties settings = settings(bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", "100");
            settings.put("session.timeout.ms", "6000");
        }
        events.clear();
        member = consumer(settings);
        member.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                note("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                note("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                note("lost", partitions);
            }
        });
        return polled(1);
    }

    private static void note(String what, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty()) {
            events.add(what);
        }
    }

    private static List<String> polled(int count) {
        while (events.size() < count) {
            member.poll(Duration.ofMillis(50));
        }
        return events;
    }

    private static List<String> leave() {
        member.close();
        return List.of("ok");
    }

    private static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }
}
