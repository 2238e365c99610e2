import java.time.Duration;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.ValueTypeInfo;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * |x - a| <= 10 and |y - b| <= 10, times less than `size` apart. A row is (cell, number, x or a, y or b).
 *
 * `stock` is Flink's interval join. It needs a key: the cell of x, ten wide. A right row is sent to its own cell and to
 * both neighbours, so that each pair meets once. `expert` compares all pairs, in the primitive arrays of `BandJoin`:
 * each subtask stores a share of the left side, and all of the right side.
 */
final class Band {
    static final int WIDTH = 10;
    private static final TypeInformation<Tuple4<IntValue, IntValue, IntValue, FloatValue>> ROW = new TupleTypeInfo<>(
            ValueTypeInfo.INT_VALUE_TYPE_INFO,
            ValueTypeInfo.INT_VALUE_TYPE_INFO,
            ValueTypeInfo.INT_VALUE_TYPE_INFO,
            ValueTypeInfo.FLOAT_VALUE_TYPE_INFO);

    private Band() {}

    static void build(StreamExecutionEnvironment env, String version, long size) {
        boolean isStock = version.equals("stock");
        DataStream<Tuple4<IntValue, IntValue, IntValue, FloatValue>> left = rows(env, 0, 0, size, isStock);
        DataStream<Tuple4<IntValue, IntValue, IntValue, FloatValue>> right = rows(env, 1, isStock ? 1 : 0, size, isStock);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> pairs;
        if (isStock) {
            pairs = left.keyBy(row -> row.f0.getValue(), Types.INT)
                    .intervalJoin(right.keyBy(row -> row.f0.getValue(), Types.INT))
                    .between(Duration.ofMillis(1 - size), Duration.ofMillis(size - 1))
                    .process(new Near(), Jobs.RESULT);
        } else {
            pairs = left.rebalance().connect(right.broadcast()).transform("band join", Jobs.RESULT, new BandJoin(size));
        }
        pairs.addSink(new Results(false)).name("results");
    }

    private static DataStream<Tuple4<IntValue, IntValue, IntValue, FloatValue>> rows(
            StreamExecutionEnvironment env, int source, int cells, long size, boolean isStock) {
        // The operator over arrays needs each side in order, so each source has one subtask.
        int subtasks = isStock ? env.getParallelism() : 1;
        return env.addSource(new Replay(source, Math.max(1, size / 8), 0), "input " + source, Jobs.ROW_NUMBER)
                .setParallelism(subtasks)
                .flatMap(new RowOf(source, cells))
                .returns(ROW)
                .setParallelism(subtasks);
    }

    static boolean areNear(int x, float y, int a, float b) {
        return Math.abs(x - a) <= WIDTH && Math.abs((double) y - (double) b) <= WIDTH;
    }

    /** Emits a row for its own cell and for that many cells on each side of it. */
    private static final class RowOf
            implements FlatMapFunction<IntValue, Tuple4<IntValue, IntValue, IntValue, FloatValue>> {
        private final int source;
        private final int cells;
        private final Tuple4<IntValue, IntValue, IntValue, FloatValue> row =
                new Tuple4<>(new IntValue(), new IntValue(), new IntValue(), new FloatValue());

        RowOf(int source, int cells) {
            this.source = source;
            this.cells = cells;
        }

        @Override
        public void flatMap(IntValue number, Collector<Tuple4<IntValue, IntValue, IntValue, FloatValue>> out) {
            int x = Columns.integers[source][number.getValue()];
            row.f1.setValue(number.getValue());
            row.f2.setValue(x);
            row.f3.setValue(Columns.reals[source][number.getValue()]);
            int own = Math.floorDiv(x, WIDTH);
            for (int cell = own - cells; cell <= own + cells; cell++) {
                row.f0.setValue(cell);
                out.collect(row);
            }
        }
    }

    private static final class Near
            extends ProcessJoinFunction<
                    Tuple4<IntValue, IntValue, IntValue, FloatValue>,
                    Tuple4<IntValue, IntValue, IntValue, FloatValue>,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private final Tuple4<LongValue, LongValue, LongValue, LongValue> pair =
                new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());

        @Override
        public void processElement(
                Tuple4<IntValue, IntValue, IntValue, FloatValue> left,
                Tuple4<IntValue, IntValue, IntValue, FloatValue> right,
                Context context,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            if (areNear(left.f2.getValue(), left.f3.getValue(), right.f2.getValue(), right.f3.getValue())) {
                pair.f0.setValue(context.getTimestamp() + 1);
                pair.f1.setValue(left.f1.getValue());
                pair.f2.setValue(right.f1.getValue());
                out.collect(pair);
            }
        }
    }
}
