import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * Two sources merged by event time. Flink has no ordered merge: rows wait until the watermark says that no earlier row
 * can come, in one subtask, because a total order needs one place that makes it.
 *
 * `stock` keeps them in Flink's state, under one key for all, with a timer for each time; `expert` in the arrays of
 * `Merge`. A row is (ts, key, value, source).
 */
final class Forward {
    /** Event time between two watermarks, in ms: a few thousand rows of a source. */
    private static final long MARK = 100;

    private Forward() {}

    static void build(StreamExecutionEnvironment env, String version) {
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> left = rows(env, 0);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> right = rows(env, 1);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> merged;
        if (version.equals("stock")) {
            merged = left.union(right).keyBy(row -> 0, Types.INT).process(new Sorted()).returns(Jobs.RESULT);
        } else {
            merged = left.connect(right).transform("merge", Jobs.RESULT, new Merge());
        }
        merged.addSink(new Results(true)).name("results");
    }

    private static DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows(
            StreamExecutionEnvironment env, int source) {
        return env.addSource(new Replay(source, MARK, 0), "input " + source, Jobs.ROW_NUMBER)
                .map(new RowOf(source))
                .returns(Jobs.RESULT);
    }

    private static final class RowOf
            implements MapFunction<IntValue, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private final int source;
        private final Tuple4<LongValue, LongValue, LongValue, LongValue> row =
                new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());

        RowOf(int source) {
            this.source = source;
            row.f3.setValue(source);
        }

        @Override
        public Tuple4<LongValue, LongValue, LongValue, LongValue> map(IntValue number) {
            row.f0.setValue(Columns.ts[source][number.getValue()]);
            row.f1.setValue(Columns.keys[source][number.getValue()]);
            row.f2.setValue(Columns.values[source][number.getValue()]);
            return row;
        }
    }

    /** Rows of equal event time: those of the first source first. */
    private static final class Sorted extends ByTime {
        @Override
        void give(
                long ts,
                List<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            for (int source = 0; source < 2; source++) {
                for (Tuple4<LongValue, LongValue, LongValue, LongValue> row : rows) {
                    if (row.f3.getValue() == source) {
                        out.collect(row);
                    }
                }
            }
        }
    }
}
