import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.LongValue;

/**
 * The expert's ordered merge: each input is in order, so its rows wait in primitive arrays, and both are merged up to
 * the watermark. The arrays are not Flink's state: they would be lost with the job.
 */
public final class Merge extends AbstractStreamOperator<Tuple4<LongValue, LongValue, LongValue, LongValue>>
        implements TwoInputStreamOperator<
                Tuple4<LongValue, LongValue, LongValue, LongValue>,
                Tuple4<LongValue, LongValue, LongValue, LongValue>,
                Tuple4<LongValue, LongValue, LongValue, LongValue>> {

    private static final class Queue {
        long[] ts = new long[1 << 14];
        long[] keys = new long[1 << 14];
        long[] values = new long[1 << 14];
        int head;
        int tail;

        void add(Tuple4<LongValue, LongValue, LongValue, LongValue> row) {
            if (tail == ts.length) {
                int length = tail - head > tail / 2 ? 2 * tail : tail;
                ts = moved(ts, length);
                keys = moved(keys, length);
                values = moved(values, length);
                tail -= head;
                head = 0;
            }
            ts[tail] = row.f0.getValue();
            keys[tail] = row.f1.getValue();
            values[tail] = row.f2.getValue();
            tail++;
        }

        private long[] moved(long[] from, int length) {
            long[] to = new long[length];
            System.arraycopy(from, head, to, 0, tail - head);
            return to;
        }
    }

    private transient Queue left;
    private transient Queue right;
    private transient Tuple4<LongValue, LongValue, LongValue, LongValue> row;
    private transient StreamRecord<Tuple4<LongValue, LongValue, LongValue, LongValue>> record;

    @Override
    public void open() throws Exception {
        super.open();
        left = new Queue();
        right = new Queue();
        row = new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());
        record = new StreamRecord<>(row);
    }

    @Override
    public void processElement1(StreamRecord<Tuple4<LongValue, LongValue, LongValue, LongValue>> element) {
        left.add(element.getValue());
    }

    @Override
    public void processElement2(StreamRecord<Tuple4<LongValue, LongValue, LongValue, LongValue>> element) {
        right.add(element.getValue());
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        long limit = mark.getTimestamp();
        while (true) {
            long leftTs = left.head < left.tail ? left.ts[left.head] : Long.MAX_VALUE;
            long rightTs = right.head < right.tail ? right.ts[right.head] : Long.MAX_VALUE;
            if (Math.min(leftTs, rightTs) > limit || Math.min(leftTs, rightTs) == Long.MAX_VALUE) {
                break;
            }
            Queue queue = leftTs <= rightTs ? left : right;
            row.f0.setValue(queue.ts[queue.head]);
            row.f1.setValue(queue.keys[queue.head]);
            row.f2.setValue(queue.values[queue.head]);
            queue.head++;
            record.setTimestamp(row.f0.getValue());
            output.collect(record);
        }
        super.processWatermark(mark);
    }
}
