import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.TreeMap;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;

/**
 * The expert's window operator: sums and counts of dense keys in primitive arrays, one pair for each pane.
 *
 * A pane is as long as the windows' advance; a window adds up `perWindow` panes when the watermark has passed it. The
 * state is not Flink's: it would be lost with the job, and its parallelism cannot change.
 */
public final class Panes extends AbstractStreamOperator<Tuple4<LongValue, LongValue, LongValue, LongValue>>
        implements OneInputStreamOperator<
                Tuple2<IntValue, LongValue>, Tuple4<LongValue, LongValue, LongValue, LongValue>> {

    private static final class Pane {
        long[] sums = new long[1 << 10];
        long[] counts = new long[1 << 10];
    }

    private final long advance;
    private final int perWindow;
    private final int stride;
    private final boolean countOnly;
    private final boolean isText;
    private transient TreeMap<Long, Pane> panes;
    private transient ArrayDeque<Pane> spare;
    private transient Pane current;
    private transient long currentFrom;
    private transient long nextEnd;
    private transient Tuple4<LongValue, LongValue, LongValue, LongValue> row;
    private transient StreamRecord<Tuple4<LongValue, LongValue, LongValue, LongValue>> record;

    /** stride: number of subtasks; keys are assigned to them by key modulo stride. */
    Panes(long advance, int perWindow, int stride, boolean countOnly, boolean isText) {
        this.advance = advance;
        this.perWindow = perWindow;
        this.stride = stride;
        this.countOnly = countOnly;
        this.isText = isText;
    }

    @Override
    public void open() throws Exception {
        super.open();
        panes = new TreeMap<>();
        spare = new ArrayDeque<>();
        currentFrom = nextEnd = Long.MIN_VALUE;
        row = new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());
        record = new StreamRecord<>(row);
    }

    @Override
    public void processElement(StreamRecord<Tuple2<IntValue, LongValue>> element) {
        long ts = element.getTimestamp();
        Pane pane = current;
        if (pane == null || ts < currentFrom || ts >= currentFrom + advance) {
            pane = paneOf(ts);
        }
        Tuple2<IntValue, LongValue> value = element.getValue();
        int place = value.f0.getValue() / stride;
        if (place >= pane.counts.length) {
            int length = Math.max(place + 1, 2 * pane.counts.length);
            pane.counts = Arrays.copyOf(pane.counts, length);
            pane.sums = Arrays.copyOf(pane.sums, length);
        }
        pane.counts[place]++;
        if (!countOnly) {
            pane.sums[place] += value.f1.getValue();
        }
    }

    private Pane paneOf(long ts) {
        long number = Math.floorDiv(ts, advance);
        currentFrom = number * advance;
        current = panes.computeIfAbsent(number, n -> spare.isEmpty() ? new Pane() : spare.poll());
        return current;
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        long limit = mark.getTimestamp() == Long.MAX_VALUE ? Long.MAX_VALUE : mark.getTimestamp() + 1;
        while (!panes.isEmpty()) {
            long end = Math.max(nextEnd, (panes.firstKey() + 1) * advance);
            if (end > limit) {
                break;
            }
            emit(end);
            nextEnd = end + advance;
            while (!panes.isEmpty() && (panes.firstKey() + perWindow) * advance < nextEnd) {
                Pane past = panes.pollFirstEntry().getValue();
                Arrays.fill(past.sums, 0);
                Arrays.fill(past.counts, 0);
                spare.add(past);
                current = null;
            }
        }
        super.processWatermark(mark);
    }

    private void emit(long end) {
        long last = end / advance - 1;
        Pane[] window = panes.subMap(last - perWindow + 1, true, last, true).values().toArray(new Pane[0]);
        int keys = 0;
        for (Pane pane : window) {
            keys = Math.max(keys, pane.counts.length);
        }
        int offset = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        record.setTimestamp(end - 1);
        for (int place = 0; place < keys; place++) {
            long count = 0;
            long sum = 0;
            for (Pane pane : window) {
                if (place < pane.counts.length) {
                    count += pane.counts[place];
                    sum += pane.sums[place];
                }
            }
            if (count != 0) {
                row.f0.setValue(end);
                int key = place * stride + offset;
                row.f1.setValue(isText ? Words.numberOf(key) : key);
                row.f2.setValue(countOnly ? count : sum);
                row.f3.setValue(countOnly ? 0 : count);
                output.collect(record);
            }
        }
    }
}
