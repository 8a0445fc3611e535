// JUnit 5: an order is sent although the leader moves; a week later, the retention of its topic has removed it.
//
// Needs pybroker on the PATH, and org.junit.jupiter:junit-jupiter and org.apache.kafka:kafka-clients as dependencies.

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class OrdersTest {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static Process broker;
    private static String api;
    private static String bootstrap;

    @BeforeAll
    static void startBroker() throws IOException {
        broker = new ProcessBuilder(
                "pybroker", "start", "--port", "0", "--exit-with-parent",
                "--data-dir", Files.createTempDirectory("pybroker").toString(),
                "--override", "pybroker.admin.listener=http://127.0.0.1:0",
                "--override", "pybroker.virtual.time=true")
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        BufferedReader lines = broker.inputReader();
        while (bootstrap == null) {
            String line = lines.readLine();
            if (line == null) {
                throw new IOException("The broker has ended before it was ready");
            }
            String address = line.substring(line.indexOf(' ') + 1);
            if (line.startsWith("ADMIN ")) {
                api = address;
            } else if (line.startsWith("READY ")) {
                bootstrap = address;
            }
        }
    }

    @AfterAll
    static void stopBroker() throws InterruptedException {
        broker.destroy();
        broker.waitFor();
    }

    @AfterEach
    void reset() throws Exception {
        request("POST", "/v1/reset", "");
    }

    static String request(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(api + path))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        assertTrue(response.statusCode() < 300, response.body());
        return response.body();
    }

    static void send(String topic, String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "client.id", "shop");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    @Test
    void anOrderIsSentAlthoughTheLeaderMoves() throws Exception {
        request("POST", "/v1/faults",
                """
                {"name": "moves", "api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}""");
        send("orders", "order 1");
        assertTrue(request("GET", "/v1/faults/moves", "").contains("\"count\": 2"));
        assertTrue(request("GET", "/v1/requests?api=Produce&client_id=shop", "").startsWith("{\"count\": 3,"));
    }

    @Test
    void aWeekLaterTheRetentionHasRemovedIt() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic("events", 1, (short) 1).configs(Map.of("retention.ms", "604800000"));
            admin.createTopics(List.of(topic)).all().get();
        }
        send("events", "event 1");
        assertEquals(1, recordCount());
        request("POST", "/v1/clock/advance", "{\"by\": \"7d\"}");
        assertEquals(0, recordCount());
    }

    static int recordCount() throws Exception {
        return Integer.parseInt(request("GET", "/v1/topics", "").replaceAll("(?s).*\"record_count\": (\\d+).*", "$1"));
    }
}
