import java.util.Comparator;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * Sessions that put something into the cart and buy nothing: a keyed process function, and behind it one stage that orders
 * the closed sessions and adds them up. There is one source: a visitor's rows from two sources would not be in order.
 *
 * Rows between the two are (ts, number of the row, clicks, 0); results are (ts, sessions, clicks, 0).
 */
final class Sessions {
    /** Event time between two watermarks, in ms. */
    private static final long MARK = 60_000;
    private static final long TIMEOUT = 3_600_000;

    private Sessions() {}

    static void build(StreamExecutionEnvironment env) {
        env.addSource(new Replay(0, MARK, 0), "input", Jobs.ROW_NUMBER)
                .setParallelism(1)
                .keyBy(row -> Columns.keys[0][row.getValue()], Types.INT)
                .process(new Closed())
                .returns(Jobs.RESULT)
                .keyBy(row -> 0, Types.INT)
                .process(new AddedUp())
                .setParallelism(1)
                .returns(Jobs.RESULT)
                .addSink(new Results(true))
                .setParallelism(1)
                .name("results");
    }

    private static Tuple4<LongValue, LongValue, LongValue, LongValue> row(long a, long b, long c) {
        return new Tuple4<>(new LongValue(a), new LongValue(b), new LongValue(c), new LongValue(0));
    }

    /** A visitor's session: {last click, clicks, has cart, has bought}. */
    private static final class Closed
            extends KeyedProcessFunction<Integer, IntValue, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private transient ValueState<long[]> session;

        @Override
        public void open(OpenContext context) {
            session = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("session", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO));
        }

        @Override
        public void processElement(
                IntValue number, Context context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            int i = number.getValue();
            long ts = Columns.ts[0][i];
            long[] now = session.value();
            if (now == null) {
                now = new long[4];
            }
            if (now[1] > 0 && ts - now[0] > TIMEOUT) {
                if (now[2] == 1 && now[3] == 0) {
                    out.collect(row(ts, i, now[1]));
                }
                now[1] = now[2] = now[3] = 0;
            }
            now[0] = ts;
            now[1]++;
            String kind = Columns.texts[0][i];
            if (kind.equals("cart")) {
                now[2] = 1;
            } else if (kind.equals("buy")) {
                now[3] = 1;
            }
            session.update(now);
        }
    }

    /** Rows of one time in the order of their numbers. */
    private static final class AddedUp extends ByTime {
        private transient ValueState<long[]> total;

        @Override
        public void open(OpenContext context) {
            super.open(context);
            total = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("total", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO));
        }

        @Override
        void give(
                long ts,
                List<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            rows.sort(Comparator.comparingLong(each -> each.f1.getValue()));
            long[] now = total.value();
            if (now == null) {
                now = new long[2];
            }
            for (Tuple4<LongValue, LongValue, LongValue, LongValue> each : rows) {
                now[0]++;
                now[1] += each.f2.getValue();
                out.collect(row(ts, now[0], now[1]));
            }
            total.update(now);
        }
    }
}
