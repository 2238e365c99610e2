import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;

/** Time that a running keyed aggregate takes from parallelism 1 to 2: from the command to the first result of two subtasks. */
final class Rescale {
    private static final long TIMEOUT_NS = 180_000_000_000L;
    private static final long WARM_NS = 3_000_000_000L;

    private Rescale() {}

    /** Milliseconds; `how` is savepoint (stop with one, start again from it) or adaptive (the scheduler does it). */
    static double run(MiniCluster flink, String how) throws Exception {
        Path folder = Files.createTempDirectory("headrace-bench-");
        Arrivals.atTwoNs = Arrivals.rows = 0;
        JobID job = null;
        try {
            JobGraph one = graph(1, how.equals("adaptive"));
            job = flink.submitJob(one).get().getJobID();
            await(() -> Arrivals.rows > 0);
            LockSupport.parkNanos(WARM_NS);
            long begin = System.nanoTime();
            if (how.equals("savepoint")) {
                String savepoint = flink.stopWithSavepoint(job, folder.toUri().toString(), false, SavepointFormatType.NATIVE)
                        .get();
                flink.requestJobResult(job).get();
                JobGraph two = graph(2, false);
                two.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
                job = flink.submitJob(two).get().getJobID();
            } else {
                JobResourceRequirements.Builder wanted = JobResourceRequirements.newBuilder();
                for (JobVertex vertex : one.getVertices()) {
                    wanted.setParallelismForJobVertex(vertex.getID(), 1, 2);
                }
                flink.updateJobResourceRequirements(job, wanted.build()).get();
            }
            await(() -> Arrivals.atTwoNs != 0);
            return (Arrivals.atTwoNs - begin) / 1e6;
        } finally {
            if (job != null) {
                flink.cancelJob(job).get();
                flink.requestJobResult(job).get();
            }
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    private static JobGraph graph(int parallelism, boolean withCheckpoints) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        env.getConfig().enableObjectReuse();
        env.getConfig().setAutoWatermarkInterval(0);
        env.setBufferTimeout(1);
        if (withCheckpoints) {
            env.enableCheckpointing(Duration.ofMillis(500).toMillis());
        }
        Jobs.stock(env.addSource(new Paced(), "paced", Jobs.PAIR).uid("paced"), true, false, 10_000, 1)
                .addSink(new Arrivals())
                .name("arrivals");
        return env.getStreamGraph().getJobGraph();
    }

    private interface Condition {
        boolean holds();
    }

    private static void await(Condition condition) {
        long begin = System.nanoTime();
        while (!condition.holds()) {
            if (System.nanoTime() - begin > TIMEOUT_NS) {
                throw new IllegalStateException("no result within " + TIMEOUT_NS / 1_000_000_000 + " s");
            }
            LockSupport.parkNanos(200_000);
        }
    }

    /** An endless source of 200,000 rows a second, 10 s of event time (a window) in each 50 ms; its position is state. */
    static final class Paced extends RichParallelSourceFunction<Tuple2<IntValue, LongValue>>
            implements CheckpointedFunction {
        private static final long PER_SECOND = 200_000;
        private static final long PER_WINDOW = 10_000;
        private static final int KEYS = 10_000;
        private volatile boolean isRunning = true;
        private transient ListState<Long> state;
        private long next;

        @Override
        public void run(SourceContext<Tuple2<IntValue, LongValue>> context) {
            int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            int own = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            Tuple2<IntValue, LongValue> row = new Tuple2<>(new IntValue(), new LongValue());
            long first = next;
            long begin = System.nanoTime();
            while (isRunning) {
                long due = first + (long) ((System.nanoTime() - begin) * 1e-9 * PER_SECOND);
                synchronized (context.getCheckpointLock()) {
                    for (; next < due; next++) {
                        if (next % PER_WINDOW == 0) {
                            context.emitWatermark(new Watermark(next * 10_000 / PER_WINDOW - 1));
                        }
                        if (next % step == own) {
                            row.f0.setValue((int) (next * 7919 % KEYS));
                            row.f1.setValue(next % 1000);
                            context.collectWithTimestamp(row, next * 10_000 / PER_WINDOW);
                        }
                    }
                }
                LockSupport.parkNanos(500_000);
            }
        }

        @Override
        public void cancel() {
            isRunning = false;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.clear();
            state.add(next);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            state = context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("next", Long.class));
            for (long each : state.get()) {
                next = Math.max(next, each);
            }
        }
    }

    /** Notes when the first result of two subtasks arrives. */
    private static final class Arrivals extends RichSinkFunction<Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        static volatile long atTwoNs;
        static volatile long rows;

        @Override
        public void invoke(Tuple4<LongValue, LongValue, LongValue, LongValue> row, Context context) {
            rows = 1;
            if (atTwoNs == 0 && getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks() == 2) {
                atTwoNs = System.nanoTime();
            }
        }
    }
}
