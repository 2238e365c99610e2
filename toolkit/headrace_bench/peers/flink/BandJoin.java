import java.util.Arrays;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;

/**
 * The expert's band join: each side arrives in order and is kept in primitive arrays; a row is compared with all rows of
 * the other side less than `size` away in time. The arrays are not Flink's state: they would be lost with the job.
 */
public final class BandJoin extends AbstractStreamOperator<Tuple4<LongValue, LongValue, LongValue, LongValue>>
        implements TwoInputStreamOperator<
                Tuple4<IntValue, IntValue, IntValue, FloatValue>,
                Tuple4<IntValue, IntValue, IntValue, FloatValue>,
                Tuple4<LongValue, LongValue, LongValue, LongValue>> {

    private static final class Side {
        long[] ts = new long[1 << 14];
        int[] numbers = new int[1 << 14];
        int[] integers = new int[1 << 14];
        float[] reals = new float[1 << 14];
        int head;
        int tail;

        void add(long at, Tuple4<IntValue, IntValue, IntValue, FloatValue> row) {
            if (tail == ts.length) {
                makeRoom();
            }
            ts[tail] = at;
            numbers[tail] = row.f1.getValue();
            integers[tail] = row.f2.getValue();
            reals[tail] = row.f3.getValue();
            tail++;
        }

        private void makeRoom() {
            int to = head + (tail - head > tail / 2 ? 2 * tail : tail);
            ts = Arrays.copyOfRange(ts, head, to);
            numbers = Arrays.copyOfRange(numbers, head, to);
            integers = Arrays.copyOfRange(integers, head, to);
            reals = Arrays.copyOfRange(reals, head, to);
            tail -= head;
            head = 0;
        }

        /** Index of the first row later than this time. */
        int after(long at) {
            int low = head;
            int high = tail;
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (ts[middle] <= at) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return low;
        }
    }

    private final long size;
    private transient Side left;
    private transient Side right;
    private transient Tuple4<LongValue, LongValue, LongValue, LongValue> pair;
    private transient StreamRecord<Tuple4<LongValue, LongValue, LongValue, LongValue>> record;

    BandJoin(long size) {
        this.size = size;
    }

    @Override
    public void open() throws Exception {
        super.open();
        left = new Side();
        right = new Side();
        pair = new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());
        record = new StreamRecord<>(pair);
    }

    @Override
    public void processElement1(StreamRecord<Tuple4<IntValue, IntValue, IntValue, FloatValue>> element) {
        compare(element, right, true);
        left.add(element.getTimestamp(), element.getValue());
    }

    @Override
    public void processElement2(StreamRecord<Tuple4<IntValue, IntValue, IntValue, FloatValue>> element) {
        compare(element, left, false);
        right.add(element.getTimestamp(), element.getValue());
    }

    private void compare(
            StreamRecord<Tuple4<IntValue, IntValue, IntValue, FloatValue>> element, Side stored, boolean isLeft) {
        long ts = element.getTimestamp();
        int x = element.getValue().f2.getValue();
        float y = element.getValue().f3.getValue();
        int[] integers = stored.integers;
        float[] reals = stored.reals;
        int end = stored.after(ts + size - 1);
        for (int i = stored.after(ts - size); i < end; i++) {
            if (Band.areNear(x, y, integers[i], reals[i])) {
                int own = element.getValue().f1.getValue();
                pair.f0.setValue(Math.max(ts, stored.ts[i]) + 1);
                pair.f1.setValue(isLeft ? own : stored.numbers[i]);
                pair.f2.setValue(isLeft ? stored.numbers[i] : own);
                record.setTimestamp(Math.max(ts, stored.ts[i]));
                output.collect(record);
            }
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        if (mark.getTimestamp() != Long.MAX_VALUE) {
            left.head = left.after(mark.getTimestamp() + 1 - size);
            right.head = right.after(mark.getTimestamp() + 1 - size);
        }
        super.processWatermark(mark);
    }
}
