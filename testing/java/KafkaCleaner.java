import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogCleanerManager;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

/**
 * Kafka's own cleaner, on logs that lie in directories, at a time that is given. No broker, no waiting.
 *
 * Each line of stdin is a pass over a log: its directory, the high watermark, the time in ms, where the last pass ended, the
 * log start offset, and the topic's settings as name=value, parted by tabs. Each line of stdout is where it began, what it could not clean, where it ended.
 */
public final class KafkaCleaner {
    private static final int DAY_MS = 86_400_000;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(clean(line.split("\t"), scheduler));
            System.out.flush();
        }
        scheduler.shutdown();
    }

    private static String clean(String[] words, KafkaScheduler scheduler) throws Exception {
        long now = Long.parseLong(words[2]);
        Time time = standing(now);
        Map<String, String> settings = new HashMap<>();
        for (int i = 5; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        File directory = new File(words[0]);
        UnifiedLog log = UnifiedLog.apply(directory, new LogConfig(settings), Long.parseLong(words[4]), 0, scheduler,
            new BrokerTopicStats(false), time, 900_000, new ProducerStateManagerConfig(DAY_MS, false), 600_000, new LogDirFailureChannel(1), true, Option.empty(), true,
            new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(Long.parseLong(words[1]));
        OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, Option.apply(Long.parseLong(words[3])), now);
        long end = offsets.firstDirtyOffset();
        LogToClean job =
            new LogToClean(log.topicPartition(), log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), true);
        if (job.cleanableBytes() > 0) {  // as LogCleanerManager chooses
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 22, "MD5"), 1 << 20, 1 << 26, 0.9,
                new Throttler(Double.MAX_VALUE, 1000, "io", "bytes", time), time, partition -> BoxedUnit.UNIT);
            Tuple2<Object, CleanerStats> done = cleaner.doClean(job, now);
            end = (Long) done._1();
        }
        log.close();
        return offsets.firstDirtyOffset() + " " + offsets.firstUncleanableDirtyOffset() + " " + end;
    }

    /** A clock that stands. */
    private static Time standing(long now) {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, given) -> {
            if (method.getName().equals("milliseconds")) {
                return now;
            }
            Method real = Time.class.getMethod(method.getName(), method.getParameterTypes());
            return real.invoke(Time.SYSTEM, given);
        });
    }
}
