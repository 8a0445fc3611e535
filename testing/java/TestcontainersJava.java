import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.model.ContainerConfig;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.LogMessageWaitStrategy;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * What Testcontainers for Java does with its Kafka containers, without an engine: the library's own configure and containerIsStarting
 * run, with the address that an engine would have published the port at. Arguments: which container, host, port. Prints one line per
 * fact: its name, a tab, its text with line ends as \n.
 */
public class TestcontainersJava {
    static String host;
    static int port;

    static class Apache extends org.testcontainers.kafka.KafkaContainer {
        Apache() { super(image("apache/kafka")); }
        @Override public String getHost() { return host; }
        @Override public Integer getMappedPort(int inside) { report("port", "" + inside); return port; }
        @Override public void copyFileToContainer(Transferable file, String path) { copied(file, path); }
        void run() throws Exception { configure(); containerIsStarting(inspected()); }
    }

    static class Confluent extends org.testcontainers.kafka.ConfluentKafkaContainer {
        Confluent() { super(image("confluentinc/cp-kafka")); }
        @Override public String getHost() { return host; }
        @Override public Integer getMappedPort(int inside) { report("port", "" + inside); return port; }
        @Override public void copyFileToContainer(Transferable file, String path) { copied(file, path); }
        void run() throws Exception { configure(); containerIsStarting(inspected()); }
    }

    @SuppressWarnings("deprecation")
    static class Older extends org.testcontainers.containers.KafkaContainer {
        Older() { super(image("confluentinc/cp-kafka")); }
        @Override public String getDockerImageName() { return "pybroker:7.6.0"; }
        @Override public String getHost() { return host; }
        @Override public Integer getMappedPort(int inside) { report("port", "" + inside); return port; }
        @Override public void copyFileToContainer(Transferable file, String path) { copied(file, path); }
        void run() throws Exception { configure(); containerIsStarting(inspected()); }
    }

    static DockerImageName image(String original) {
        return DockerImageName.parse("pybroker:7.6.0").asCompatibleSubstituteFor(original);
    }

    static InspectContainerResponse inspected() throws Exception {
        ContainerConfig config = new ContainerConfig();
        set(ContainerConfig.class, config, "hostName", "kafka");
        InspectContainerResponse response = new InspectContainerResponse();
        set(InspectContainerResponse.class, response, "config", config);
        return response;
    }

    static void copied(Transferable file, String path) {
        report("script", new String(file.getBytes(), StandardCharsets.UTF_8));
        report("path", path);
    }

    static void set(Class<?> owner, Object object, String name, Object value) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    static Object get(Class<?> owner, Object object, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    static Object find(Object object, String name) throws Exception {
        for (Class<?> owner = object.getClass(); owner != null; owner = owner.getSuperclass()) {
            try {
                return get(owner, object, name);
            } catch (NoSuchFieldException missing) {
                continue;
            }
        }
        throw new NoSuchFieldException(name);
    }

    static void report(String name, String text) {
        System.out.println(name + "\t" + text.replace("\n", "\\n"));
    }

    static void describe(GenericContainer<?> container) throws Exception {
        for (Map.Entry<String, String> entry : container.getEnvMap().entrySet()) {
            report("environment", entry.getKey() + "=" + entry.getValue());
        }
        Method definition = GenericContainer.class.getDeclaredMethod("getContainerDef");
        definition.setAccessible(true);
        Object def = definition.invoke(container);
        Object words = find(def, "entrypoint");
        if (words != null) {
            for (Object word : words instanceof List ? (List<?>) words : List.of((Object[]) words)) {
                report("command", "" + word);
            }
        }
        for (String word : container.getCommandParts()) {
            report("command", word);
        }
        Object strategy = get(GenericContainer.class, container, "waitStrategy");
        if (!(strategy instanceof LogMessageWaitStrategy)) {
            strategy = find(def, "waitStrategy");  // where the older container has it
        }
        report("pattern", (String) get(LogMessageWaitStrategy.class, strategy, "regEx"));
    }

    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        host = arguments[1];
        port = Integer.parseInt(arguments[2]);
        switch (arguments[0]) {
            case "KafkaContainer" -> {
                Apache container = new Apache();
                container.run();
                describe(container);
            }
            case "ConfluentKafkaContainer" -> {
                Confluent container = new Confluent();
                container.run();
                describe(container);
            }
            default -> {
                Older container = new Older();
                if (arguments[0].endsWith("kraft")) {
                    container.withKraft();
                }
                container.run();
                describe(container);
            }
        }
        System.exit(0);
    }
}
