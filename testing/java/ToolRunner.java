import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM, because a JVM's start costs more than most tools.
 *
 * Each line of stdin is a run: what the tool is to read, its class and its arguments, in base64, parted by blanks. Each line of
 * stdout is its outcome: the exit code, what it wrote to stdout, what it wrote to stderr, the texts in base64.
 *
 * A tool that exits stops there for good, as it would alone: its thread never continues. Its shutdown hooks run then.
 */
public final class ToolRunner {
    private static final long LIMIT_S = 60;
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile CompletableFuture<Integer> outcome;

    /** Goes to wherever the run of the moment wants it. One object for all runs: Scala's console keeps what it found first. */
    private static final class Switched extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            target.write(value);
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            target.write(bytes, offset, length);
        }

        synchronized String take() {
            byte[] all = target.toByteArray();
            target = new ByteArrayOutputStream();
            return Base64.getEncoder().encodeToString(all);
        }
    }

    public static void main(String[] args) throws Exception {
        InputStream orders = System.in;
        PrintStream responses = System.out;
        Switched out = new Switched();
        Switched err = new Switched();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code, message));
        Exit.setHaltProcedure((code, message) -> end(code, message));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(orders, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1)).map(ToolRunner::text).toArray(String[]::new);
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            int code = run(words[1], Arrays.copyOfRange(words, 2, words.length));
            System.out.flush();
            System.err.flush();
            responses.println(code + " " + out.take() + " " + err.take());
            responses.flush();
        }
        System.exit(0);
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static int run(String name, String[] arguments) throws Exception {
        CompletableFuture<Integer> done = new CompletableFuture<>();
        outcome = done;
        HOOKS.clear();
        Set<Thread> before = hooks();
        Thread thread = new Thread(() -> {
            try {
                Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
                done.complete(0);
            } catch (InvocationTargetException error) {
                System.err.print("Exception in thread \"main\" ");
                error.getCause().printStackTrace();
                done.complete(1);
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
                done.complete(127);
            }
        }, "main");
        thread.setDaemon(true);
        thread.start();
        int code;
        try {
            code = done.get(LIMIT_S, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            System.err.println("still running after " + LIMIT_S + " s");
            code = 124;
        }
        List<Thread> last = new ArrayList<>();
        HOOKS.forEach(hook -> last.add(new Thread(hook)));
        for (Thread hook : hooks()) {
            if (!before.contains(hook) && Runtime.getRuntime().removeShutdownHook(hook)) {
                last.add(hook);
            }
        }
        for (Thread hook : last) {
            hook.setDaemon(true);
            hook.start();
            hook.join(TimeUnit.SECONDS.toMillis(LIMIT_S));
        }
        return code;
    }

    /** The hooks of tools that ask the runtime, not Kafka's Exit; the JVM needs --add-opens java.base/java.lang=ALL-UNNAMED. */
    private static Set<Thread> hooks() throws ReflectiveOperationException {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        Set<Thread> found = new HashSet<>();
        ((Map<?, ?>) field.get(null)).keySet().forEach(hook -> found.add((Thread) hook));
        return found;
    }

    private static void end(int code, String message) {
        if (message != null) {
            System.err.println(message);
        }
        outcome.complete(code);
        while (true) {
            LockSupport.park();
        }
    }
}
