import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/**
 * Prints what a release of Kafka knows of its settings, as JSON: of topics, brokers, groups (null where there are none) and client
 * metrics each setting's type, default, and what it makes of each text in the arguments; and which of a broker's are dynamic.
 */
public final class ConfigDefinitions {
    public static void main(String[] texts) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("topic", described(called("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"), texts));
        all.put("broker", described(called("kafka.server.KafkaConfig", "configDef"), texts));
        all.put("metrics", described(called("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef"), texts));
        all.put("group", described(field("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"), texts));
        Object dynamic = field("org.apache.kafka.server.config.DynamicBrokerConfig", "ALL_DYNAMIC_CONFIGS");
        if (dynamic == null) {
            Object broker = field("kafka.server.DynamicConfig$Broker$", "MODULE$");
            dynamic = broker.getClass().getMethod("names").invoke(broker);
        }
        all.put("dynamic", new ArrayList<>((Collection<?>) dynamic));
        new ObjectMapper().writeValue(System.out, all);
    }

    private static Object called(String type, String method) throws ReflectiveOperationException {
        return Class.forName(type).getMethod(method).invoke(null);
    }

    private static Object field(String type, String name) throws ReflectiveOperationException {
        try {
            return Class.forName(type).getField(name).get(null);
        } catch (ClassNotFoundException | NoSuchFieldException error) {
            return null;  // another release has it
        }
    }

    private static Map<String, Object> described(Object definition, String[] texts) {
        if (definition == null) {
            return null;
        }
        Map<String, Object> settings = new TreeMap<>();
        for (ConfigDef.ConfigKey key : ((ConfigDef) definition).configKeys().values()) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("type", key.type.name().toLowerCase());
            one.put("has_default", key.hasDefault());
            one.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            one.put("internal", key.internalConfig);
            List<String> refusals = new ArrayList<>();
            for (String text : texts) {
                refusals.add(refusal(key, text));
            }
            one.put("refusals", refusals);
            settings.put(key.name, one);
        }
        return settings;
    }

    private static String refusal(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return null;
        } catch (ConfigException error) {
            return error.getMessage();
        }
    }
}
