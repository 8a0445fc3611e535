import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

/**
 * Prints which versions of each API a broker of a release of Kafka accepts, and which it announces in ApiVersions, as its
 * kafka-clients jar declares them: lines of "accepted KEY LOWEST HIGHEST" and "announced KEY LOWEST HIGHEST". The broker has the
 * settings that it has by default; up to 2.8 it works with ZooKeeper.
 */
public final class ApiRanges {
    private static final String PROTOCOL = "org.apache.kafka.common.protocol.";

    public static void main(String[] arguments) throws Exception {
        Object[] keys = Class.forName(PROTOCOL + "ApiKeys").getEnumConstants();
        Object listener = listener();
        boolean isSilent = type("org.apache.kafka.common.requests.ApiVersionsResponse") == null;
        for (Object key : keys) {
            if (listener != null && !(boolean) call(key, "inScope", listener)) {
                continue;
            }
            int[] range = range(key);
            if (range != null) {
                print("accepted", id(key), range[0], range[1]);
                if (!isSilent && filter() == null) {
                    print("announced", id(key), range[0], range[1]);
                }
            }
        }
        if (filter() != null) {
            announce(filter(), listener);
        }
    }

    /** The lowest and the highest version of an API, null where it has none. */
    private static int[] range(Object key) throws ReflectiveOperationException {
        if (find(key.getClass(), "latestVersion", 1) != null) {
            short lowest = (short) call(key, "oldestVersion");
            short highest = (short) call(key, "latestVersion", false);  // without versions that are not stable yet
            return lowest > highest ? null : new int[] {lowest, highest};
        }
        if (find(key.getClass(), "latestVersion", 0) != null) {
            return new int[] {(short) call(key, "oldestVersion"), (short) call(key, "latestVersion")};
        }
        Object[][] requests = (Object[][]) Class.forName(PROTOCOL + "Protocol").getField("REQUESTS").get(null);
        List<Integer> versions = new ArrayList<>();
        Object[] schemas = requests[id(key)];
        for (int version = 0; version < Array.getLength(schemas); version++) {
            if (schemas[version] != null) {
                versions.add(version);
            }
        }
        return versions.isEmpty() ? null : new int[] {versions.get(0), versions.get(versions.size() - 1)};
    }

    /** Print what the release's own code announces, where it leaves APIs out or widens their ranges. */
    private static void announce(Method filter, Object listener) throws ReflectiveOperationException {
        List<Object> values = new ArrayList<>();
        for (Class<?> type : filter.getParameterTypes()) {
            if (type.isPrimitive()) {
                values.add(false);  // neither versions that are not stable nor telemetry, which needs a plugin
            } else {
                values.add(type.isInstance(listener) ? listener : type.getMethod("current").invoke(null));
            }
        }
        for (Object api : (Iterable<?>) filter.invoke(null, values.toArray())) {
            print("announced", (short) call(api, "apiKey"), (short) call(api, "minVersion"), (short) call(api, "maxVersion"));
        }
    }

    private static Method filter() throws ReflectiveOperationException {
        return find(type("org.apache.kafka.common.requests.ApiVersionsResponse"), "filterApis", 3, 4);
    }

    /** The kind of a broker's listener, null in a release that has only one. */
    private static Object listener() throws ReflectiveOperationException {
        Class<?> kinds = type("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        if (kinds == null) {
            return null;
        }
        Object found = null;
        for (Object kind : kinds.getEnumConstants()) {
            boolean isOfKraft = find(Class.forName(PROTOCOL + "ApiKeys"), "latestVersion", 1) != null;
            if (kind.toString().equals(isOfKraft ? "BROKER" : "ZK_BROKER")) {
                found = kind;
            }
        }
        return found;
    }

    private static short id(Object key) throws ReflectiveOperationException {
        return ((Number) key.getClass().getField("id").get(key)).shortValue();
    }

    private static Class<?> type(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException error) {
            return null;  // another release has it
        }
    }

    private static Method find(Class<?> type, String name, int... parameters) {
        for (Method method : type == null ? new Method[0] : type.getMethods()) {
            for (int count : parameters.length == 0 ? new int[] {0} : parameters) {
                if (method.getName().equals(name) && method.getParameterCount() == count) {
                    return method;
                }
            }
        }
        return null;
    }

    private static Object call(Object target, String name, Object... values) throws ReflectiveOperationException {
        return find(target.getClass(), name, values.length).invoke(target, values);
    }

    private static void print(String what, int key, int lowest, int highest) {
        System.out.println(what + " " + key + " " + lowest + " " + highest);
    }
}
