import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.LogCleanerManager;
import kafka.log.LogCleanerManager$;
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
import scala.Option;

/**
 * What Kafka's cleaner would do with a log, without doing it.
 *
 * The only argument is the log's directory. Each line of stdin is a question: the high watermark, the time in ms, where the last
 * cleaning ended, and the topic's settings as name=value, parted by tabs. Each line of stdout is the first dirty offset, the first
 * offset that is not cleanable, the clean and the cleanable bytes, for how many ms a cleaning is overdue, and whether it is due.
 */
public final class KafkaCleanable {
    private static final int DAY_MS = 86_400_000;

    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.apply(new File(args[0]), new LogConfig(new HashMap<>()), 0, 0, scheduler, new BrokerTopicStats(false),
            Time.SYSTEM, 900_000, new ProducerStateManagerConfig(DAY_MS, false), 600_000, new LogDirFailureChannel(1), true,
            Option.empty(), true, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(respond(log, line.split("\t")));
            System.out.flush();
        }
        log.close();
        scheduler.shutdown();
    }

    private static String respond(UnifiedLog log, String[] words) {
        long now = Long.parseLong(words[1]);
        Map<String, String> settings = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        log.updateConfig(new LogConfig(settings));
        log.updateHighWatermark(Long.parseLong(words[0]));
        OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, Option.apply(Long.parseLong(words[2])), now);
        long delay = LogCleanerManager$.MODULE$.kafka$log$LogCleanerManager$$maxCompactionDelay(log,
            offsets.firstDirtyOffset(), now);
        LogToClean job = new LogToClean(log.topicPartition(), log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(),
            delay > 0);
        boolean isDue = (job.needCompactionNow() && job.cleanableBytes() > 0)
            || (job.totalBytes() > 0 && job.cleanableRatio() > log.config().minCleanableRatio);
        return offsets.firstDirtyOffset() + " " + job.firstUncleanableOffset() + " " + job.cleanBytes() + " " + job.cleanableBytes()
            + " " + delay + " " + isDue;
    }
}
