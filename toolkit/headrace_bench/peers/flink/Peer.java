import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;


/**
 * Flink in one virtual machine, driven by lines of text: `load WORKLOAD FOLDER SIZE`, `run VERSION PARALLELISM ROWS_PER_SECOND`,
 * `rescale savepoint|adaptive` (the latter with the argument `adaptive` or `tuned`).
 *
 * The answer to a run: `@ok SECONDS CPU_SECONDS DIGEST ROWS P50_MS P99_MS`, from the first row that leaves the source
 * to the end of the input at the last sink, without deployment; processor time is that of the whole virtual machine.
 */
public final class Peer {
    private static final int SLOTS = 2;
    private static String loaded;
    private static long size;

    private Peer() {}

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(256));
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(256));
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(64));
        settings.set(RestOptions.BIND_PORT, "0");
        settings.set(RestOptions.BIND_ADDRESS, "127.0.0.1");
        settings.set(RestOptions.ADDRESS, "127.0.0.1");
        if (arguments.length > 0) { // `adaptive`: its scheduler; `tuned`: the same without its waiting times
            settings.set(JobManagerOptions.SCHEDULER, JobManagerOptions.SchedulerType.Adaptive);
        }
        if (arguments.length > 0 && arguments[0].equals("tuned")) {
            settings.set(JobManagerOptions.SCHEDULER_EXECUTING_COOLDOWN_AFTER_RESCALING, Duration.ZERO);
            settings.set(JobManagerOptions.SCHEDULER_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT, Duration.ZERO);
            settings.set(JobManagerOptions.SCHEDULER_RESCALE_TRIGGER_MAX_DELAY, Duration.ZERO);
        }
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(settings)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(SLOTS)
                .setCommonBindAddress("127.0.0.1")
                .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            System.out.println("@ok");
            BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                System.out.println("@" + answer(flink, line.split(" ")).replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    private static String answer(MiniCluster flink, String[] words) {
        try {
            if (words[0].equals("load")) {
                Columns.load(words[1], Path.of(words[2]));
                loaded = words[1];
                size = Long.parseLong(words[3]);
                return "ok";
            }
            if (words[0].equals("rescale")) {
                return "ok " + Rescale.run(flink, words[1]);
            }
            return run(flink, words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return "error " + cause;
        }
    }

    private static String run(MiniCluster flink, String version, int parallelism, long perSecond) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(parallelism);
        env.getConfig().enableObjectReuse();
        env.getConfig().setAutoWatermarkInterval(0);
        env.getConfig().setLatencyTrackingInterval(0);
        env.setBufferTimeout(perSecond > 0 ? 1 : 100);
        Jobs.build(env, loaded, size, version, parallelism, perSecond);
        Results.reset(perSecond > 0);
        Words.reset();
        JobGraph graph = env.getStreamGraph().getJobGraph();
        JobID job = flink.submitJob(graph).get().getJobID();
        JobResult result = flink.requestJobResult(job).get();
        if (!result.isSuccess()) {
            throw new IllegalStateException(result.getSerializedThrowable().map(Object::toString).orElse("no result"));
        }
        double seconds = (Results.lastNs.get() - Results.firstNs.get()) / 1e9;
        return String.join(
                " ",
                "ok",
                Double.toString(seconds),
                Double.toString((Results.lastCpuNs.get() - Results.firstCpuNs.get()) / 1e9),
                Long.toUnsignedString(Results.digest.get()),
                Long.toString(Results.rows.get()),
                Double.toString(Results.latencyMs(0.5)),
                Double.toString(Results.latencyMs(0.99)));
    }
}
