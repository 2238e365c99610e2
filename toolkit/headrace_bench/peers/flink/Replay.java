import java.util.concurrent.locks.LockSupport;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.types.IntValue;

/**
 * Emits the numbers of a source's rows, each with its event time; subtask s of p emits rows s, s + p, ...
 *
 * A watermark follows only where a pane ends: further watermarks would cost time and bring nothing.
 */
public final class Replay extends RichParallelSourceFunction<IntValue> {
    private final int source;
    private final long pane;
    private final long perSecond;
    private volatile boolean isRunning = true;

    /** perSecond: rate of all subtasks together; 0 = as fast as rows are taken. */
    Replay(int source, long pane, long perSecond) {
        this.source = source;
        this.pane = pane;
        this.perSecond = perSecond;
    }

    @Override
    public void run(SourceContext<IntValue> context) {
        long[] ts = Columns.ts[source];
        int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        int first = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        IntValue row = new IntValue();
        long end = Long.MIN_VALUE;
        Results.begin();
        long begin = System.nanoTime();
        long due = Long.MIN_VALUE;
        for (int i = first; i < ts.length && isRunning; i += step) {
            if (perSecond > 0 && i >= due) {
                due = await(begin, i);
            }
            if (ts[i] >= end) {
                if (end != Long.MIN_VALUE) {
                    Results.completed(end);
                    context.emitWatermark(new Watermark(end - 1));
                }
                end = (Math.floorDiv(ts[i], pane) + 1) * pane;
            }
            row.setValue(i);
            context.collectWithTimestamp(row, ts[i]);
        }
    }

    /** Waits until row i is due; returns the first row that is not due yet. */
    private long await(long begin, int i) {
        while (true) {
            long now = System.nanoTime() - begin;
            long due = (long) (now * 1e-9 * perSecond) + 1;
            if (due > i) {
                return due;
            }
            LockSupport.parkNanos(Math.max(50_000, (long) (i * 1e9 / perSecond) - now));
        }
    }

    @Override
    public void cancel() {
        isRunning = false;
    }
}
