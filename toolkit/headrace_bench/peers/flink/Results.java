import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.types.LongValue;

/**
 * The sink of a job: hashes its rows as headrace_bench.digest does, and notes when the last row came.
 *
 * Sources and sinks of a mini cluster live in one virtual machine, so that one clock serves both.
 */
public final class Results extends RichSinkFunction<Tuple4<LongValue, LongValue, LongValue, LongValue>> {
    static final AtomicLong digest = new AtomicLong();
    static final AtomicLong rows = new AtomicLong();
    static final AtomicLong firstNs = new AtomicLong();
    static final AtomicLong lastNs = new AtomicLong();
    /** Processor time of the virtual machine when the first row came, and when the last sink had ended. */
    static final AtomicLong firstCpuNs = new AtomicLong();
    static final AtomicLong lastCpuNs = new AtomicLong();
    /** Right boundary of a window -> when the tuple that completed it left its source. */
    static final ConcurrentHashMap<Long, Long> completedNs = new ConcurrentHashMap<>();
    static final ConcurrentHashMap<Integer, long[]> latencies = new ConcurrentHashMap<>();
    static volatile boolean measuresLatency;

    private final boolean isOrdered;
    private long ownDigest;
    private long ownRows;
    private long[] ownLatencies = new long[1 << 12];
    private int waits;

    /** isOrdered: a row's position is part of the hash; only for a sink of one subtask. */
    Results(boolean isOrdered) {
        this.isOrdered = isOrdered;
    }

    static void reset(boolean withLatency) {
        digest.set(0);
        rows.set(0);
        firstNs.set(Long.MAX_VALUE);
        lastNs.set(0);
        firstCpuNs.set(Long.MAX_VALUE);
        lastCpuNs.set(0);
        completedNs.clear();
        latencies.clear();
        measuresLatency = withLatency;
    }

    static void begin() {
        firstNs.accumulateAndGet(System.nanoTime(), Math::min);
        firstCpuNs.accumulateAndGet(cpuNs(), Math::min);
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static void completed(long boundary) {
        completedNs.merge(boundary, System.nanoTime(), Math::max);
    }

    static long mix(long a, long b, long c, long d) {
        long mixed = a * 0x1E3779B97F4A7C15L + b * 0x3F58476D1CE4E5B9L + c * 0x14D049BB133111EBL
                + d * 0x2545F4914F6CDD1DL;
        return (mixed ^ (mixed >> 29)) * 0x3F58476D1CE4E5B9L;
    }

    @Override
    public void invoke(Tuple4<LongValue, LongValue, LongValue, LongValue> row, Context context) {
        long end = row.f0.getValue();
        ownDigest += isOrdered
                ? mix(ownRows, end, row.f1.getValue(), row.f2.getValue())
                : mix(end, row.f1.getValue(), row.f2.getValue(), row.f3.getValue());
        ownRows++;
        if (measuresLatency) {
            Long completed = completedNs.get(end);
            if (completed != null) { // the end of the input completes the last windows
                if (waits == ownLatencies.length) {
                    ownLatencies = Arrays.copyOf(ownLatencies, 2 * waits);
                }
                ownLatencies[waits++] = System.nanoTime() - completed;
            }
        }
    }

    @Override
    public void finish() {
        lastNs.accumulateAndGet(System.nanoTime(), Math::max);
        lastCpuNs.accumulateAndGet(cpuNs(), Math::max);
        digest.addAndGet(ownDigest);
        rows.addAndGet(ownRows);
        latencies.put(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(), Arrays.copyOf(ownLatencies, waits));
    }

    /** Percentile of all latencies, in ms. */
    static double latencyMs(double share) {
        long[] all = latencies.values().stream().flatMapToLong(Arrays::stream).sorted().toArray();
        return all.length == 0 ? Double.NaN : all[(int) Math.min(all.length - 1, share * all.length)] / 1e6;
    }
}
