import java.lang.reflect.Field;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The ways in which programs on Kafka's Java client use transactions. Prints what a test compares, one line for each fact.
 *
 *     Transactions commit BOOTSTRAP TOPIC ID COUNT                  transactions of one record in each of two partitions
 *     Transactions connect BOOTSTRAP TOPIC ID                       Connect's exactly-once source: fence, then abort what hangs
 *     Transactions flink-begin BOOTSTRAP TOPIC ID                   Flink: write, print producer id and epoch, and die
 *     Transactions flink-resume BOOTSTRAP TOPIC ID PRODUCER EPOCH   Flink: commit what another process has written
 *     Transactions timeout BOOTSTRAP ID MS                          ask for a timeout
 */
public final class Transactions {


    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1];
        switch (arguments[0]) {
            case "commit" -> commit(bootstrap, arguments[2], arguments[3], Integer.parseInt(arguments[4]));
            case "connect" -> connect(bootstrap, arguments[2], arguments[3]);
            case "flink-begin" -> flinkBegin(bootstrap, arguments[2], arguments[3]);
            case "flink-resume" -> flinkResume(bootstrap, arguments[3], Long.parseLong(arguments[4]), Short.parseShort(arguments[5]));
            case "timeout" -> timeout(bootstrap, arguments[2], arguments[3]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id, String timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", timeoutMs);
        properties.put("delivery.timeout.ms", "60000");
        properties.put("linger.ms", "0");
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes());
    }

    /** Every third transaction is aborted. */
    private static void commit(String bootstrap, String topic, String id, int count) {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, "60000")) {
            producer.initTransactions();
            for (int number = 0; number < count; number++) {
                boolean aborts = number % 3 == 0;
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(record(topic, partition, (aborts ? "aborted " : "committed ") + number));
                }
                producer.flush();
                if (aborts) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                System.out.println("ended " + number);
            }
        }
    }

    private static void connect(String bootstrap, String topic, String id) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaProducer<byte[], byte[]> zombie = producer(bootstrap, id, "60000")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(record(topic, 0, "of a zombie")).get();
            admin.fenceProducers(Set.of(id)).all().get();
            try {
                zombie.commitTransaction();
                System.out.println("not fenced");
            } catch (ProducerFencedException error) {
                System.out.println("fenced");
            }
            try (KafkaProducer<byte[], byte[]> stuck = producer(bootstrap, id + "-stuck", "60000")) {
                stuck.initTransactions();
                stuck.beginTransaction();
                stuck.send(record(topic, 1, "of an open transaction")).get();
                TopicPartition partition = new TopicPartition(topic, 1);
                Collection<ProducerState> states =
                        admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
                for (ProducerState state : states) {
                    if (state.currentTransactionStartOffset().isPresent()) {
                        // a marker of the second transaction version has a larger epoch than the batches
                        short epoch = (short) state.producerEpoch();
                        admin.abortTransaction(new AbortTransactionSpec(
                                        partition, state.producerId(), epoch, state.coordinatorEpoch().orElse(0)))
                                .all()
                                .get();
                        System.out.println("aborted");
                    }
                }
            }
        }
    }

    private static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    private static void flinkBegin(String bootstrap, String topic, String id) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, "600000");
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(record(topic, 0, "pre-committed"));
        producer.flush();
        Object idAndEpoch = field(field(producer, "transactionManager"), "producerIdAndEpoch");
        System.out.println("producer " + field(idAndEpoch, "producerId") + " " + field(idAndEpoch, "epoch"));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Sets what Flink's FlinkKafkaInternalProducer.resumeTransaction sets, and commits. */
    private static void flinkResume(String bootstrap, String id, long producerId, short epoch) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, "600000")) {
            Object manager = field(producer, "transactionManager");
            synchronized (manager) {
                transition(manager, "INITIALIZING");
                Class<?> pair = Class.forName("org.apache.kafka.common.utils.ProducerIdAndEpoch");
                var constructor = pair.getDeclaredConstructor(long.class, short.class);
                constructor.setAccessible(true);
                Field idAndEpoch = manager.getClass().getDeclaredField("producerIdAndEpoch");
                idAndEpoch.setAccessible(true);
                idAndEpoch.set(manager, constructor.newInstance(producerId, epoch));
                transition(manager, "READY");
                transition(manager, "IN_TRANSACTION");
                Field started = manager.getClass().getDeclaredField("transactionStarted");
                started.setAccessible(true);
                started.set(manager, true);
            }
            producer.commitTransaction();
            System.out.println("resumed");
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void transition(Object manager, String state) throws Exception {
        Class<?> states = Class.forName("org.apache.kafka.clients.producer.internals.TransactionManager$State");
        Field current = manager.getClass().getDeclaredField("currentState");
        current.setAccessible(true);
        current.set(manager, Enum.valueOf((Class<Enum>) states, state));
    }

    private static void timeout(String bootstrap, String id, String milliseconds) {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, milliseconds)) {
            producer.initTransactions();
            System.out.println("allowed");
        } catch (Exception error) {
            System.out.println(error.getMessage());
        }
    }
}
