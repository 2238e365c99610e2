import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * The event window and the page-view join; rows as in headrace_bench.peers.programs.
 *
 * `stock`: barriers are broadcast to the subtasks of the values; each sums its own values in keyed state, by event-time
 * timers, and one subtask adds their sums. Views and updates are joined by key, in the order that timers give. `expert` is
 * the sequential version: `Merge` puts both inputs into one order, and one function follows it.
 */
final class Programs {
    /** Event time between two watermarks, in ms. */
    private static final long MARK = 100;
    private static final int MAX_PARALLELISM = 128;
    private static final MapStateDescriptor<Long, Boolean> BARRIERS =
            new MapStateDescriptor<>("barriers", Types.LONG, Types.BOOLEAN);

    private Programs() {}

    static void build(StreamExecutionEnvironment env, String workload, String version, int parallelism) {
        boolean isWindow = workload.equals("window");
        env.setMaxParallelism(MAX_PARALLELISM);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> left = rows(env, 0, parallelism);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> right = rows(env, 1, 1);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> results;
        if (version.equals("expert")) {
            results = left.connect(right)
                    .transform("merge", Jobs.RESULT, new Merge())
                    .flatMap(isWindow ? new SumsInOrder() : new InfoInOrder())
                    .returns(Jobs.RESULT);
        } else if (isWindow) {
            int[] keys = keysOfSubtasks(parallelism);
            results = left.keyBy(row -> keys[(int) row.f3.getValue()], Types.INT)
                    .connect(right.broadcast(BARRIERS))
                    .process(new Sums())
                    .returns(Types.TUPLE(Types.LONG, Types.LONG))
                    .process(new Total(parallelism))
                    .setParallelism(1)
                    .returns(Jobs.RESULT);
        } else {
            results = left.keyBy(row -> row.f1.getValue(), Types.LONG)
                    .connect(right.keyBy(row -> row.f1.getValue(), Types.LONG))
                    .process(new Info())
                    .returns(Jobs.RESULT);
        }
        results.addSink(new Results(false)).name("results");
    }

    /** (ts, key, value, subtask that the row belongs to) */
    private static DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows(
            StreamExecutionEnvironment env, int source, int parallelism) {
        return env.addSource(new Replay(source, MARK, 0), "input " + source, Jobs.ROW_NUMBER)
                .setParallelism(parallelism)
                .map(number -> {
                    int row = number.getValue();
                    return new Tuple4<>(
                            new LongValue(Columns.ts[source][row]),
                            new LongValue(Columns.keys[source][row]),
                            new LongValue(Columns.values[source][row]),
                            new LongValue(row % parallelism));
                })
                .setParallelism(parallelism)
                .returns(Jobs.RESULT);
    }

    /** For each subtask, a key that Flink assigns to it. */
    private static int[] keysOfSubtasks(int parallelism) {
        int[] keys = new int[parallelism];
        for (int subtask = 0; subtask < parallelism; subtask++) {
            while (KeyGroupRangeAssignment.assignKeyToParallelOperator(keys[subtask], MAX_PARALLELISM, parallelism)
                    != subtask) {
                keys[subtask]++;
            }
        }
        return keys;
    }

    private static Tuple4<LongValue, LongValue, LongValue, LongValue> result(long ts, long a, long b, long c) {
        return new Tuple4<>(new LongValue(ts), new LongValue(a), new LongValue(b), new LongValue(c));
    }

    // -- event window

    /** Sums of one key's values between barriers: (barrier, sum). */
    private static final class Sums
            extends KeyedBroadcastProcessFunction<
                    Integer,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>,
                    Tuple2<Long, Long>> {
        private transient MapState<Long, Long> waiting;
        private transient ValueState<Long> total;
        private transient ValueState<Long> answered;
        /** The barriers in the broadcast state, in order. */
        private transient TreeSet<Long> barriers;

        @Override
        public void open(OpenContext context) {
            waiting = getRuntimeContext().getMapState(new MapStateDescriptor<>("waiting", Types.LONG, Types.LONG));
            total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
            answered = getRuntimeContext().getState(new ValueStateDescriptor<>("answered", Types.LONG));
            barriers = new TreeSet<>();
        }

        @Override
        public void processElement(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row,
                ReadOnlyContext context,
                Collector<Tuple2<Long, Long>> out)
                throws Exception {
            if (total.value() == null) {
                total.update(0L);
                answered.update(Long.MIN_VALUE);
                context.timerService().registerEventTimeTimer(Long.MAX_VALUE - 1); // the end
            }
            long ts = row.f0.getValue();
            Long sum = waiting.get(ts);
            if (sum == null) {
                context.timerService().registerEventTimeTimer(ts);
            }
            waiting.put(ts, (sum == null ? 0 : sum) + row.f2.getValue());
        }

        @Override
        public void processBroadcastElement(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row, Context context, Collector<Tuple2<Long, Long>> out)
                throws Exception {
            context.getBroadcastState(BARRIERS).put(row.f0.getValue(), true);
            barriers.add(row.f0.getValue());
        }

        @Override
        public void onTimer(long ts, OnTimerContext context, Collector<Tuple2<Long, Long>> out) throws Exception {
            long sum = total.value();
            // All barriers before this time have arrived: the watermark covers both inputs.
            for (long barrier : barriers.subSet(answered.value(), false, ts, false)) {
                out.collect(new Tuple2<>(barrier, sum));
                sum = 0;
                answered.update(barrier);
            }
            Long own = waiting.get(ts);
            total.update(sum + (own == null ? 0 : own));
            waiting.remove(ts);
        }
    }

    /** Adds the sums of all subtasks. */
    private static final class Total
            extends ProcessFunction<Tuple2<Long, Long>, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private final int parts;
        private final Map<Long, long[]> open = new HashMap<>();

        Total(int parts) {
            this.parts = parts;
        }

        @Override
        public void processElement(
                Tuple2<Long, Long> part, Context context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            long[] sum = open.computeIfAbsent(part.f0, barrier -> new long[2]);
            sum[0] += part.f1;
            if (++sum[1] == parts) {
                out.collect(result(part.f0, sum[0], 0, 0));
                open.remove(part.f0);
            }
        }
    }

    private static final class SumsInOrder
            implements FlatMapFunction<
                    Tuple4<LongValue, LongValue, LongValue, LongValue>, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private long sum;

        @Override
        public void flatMap(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            if (row.f1.getValue() == 0) {
                sum += row.f2.getValue();
            } else {
                out.collect(result(row.f0.getValue(), sum, 0, 0));
                sum = 0;
            }
        }
    }

    // -- page-view join

    /** Keeps views and updates of one page until the timer of their time, then emits views first. */
    private static final class Info
            extends KeyedCoProcessFunction<
                    Long,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>,
                    Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private transient MapState<Long, List<Long>> views;
        private transient MapState<Long, List<Long>> updates;
        private transient ValueState<Long> info;

        @Override
        public void open(OpenContext context) {
            views = getRuntimeContext().getMapState(new MapStateDescriptor<>("views", Types.LONG, Types.LIST(Types.LONG)));
            updates = getRuntimeContext().getMapState(new MapStateDescriptor<>("updates", Types.LONG, Types.LIST(Types.LONG)));
            info = getRuntimeContext().getState(new ValueStateDescriptor<>("info", Types.LONG));
        }

        @Override
        public void processElement1(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row,
                Context context,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            keep(views, row, context);
        }

        @Override
        public void processElement2(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row,
                Context context,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            keep(updates, row, context);
        }

        private static void keep(
                MapState<Long, List<Long>> state, Tuple4<LongValue, LongValue, LongValue, LongValue> row, Context context)
                throws Exception {
            long ts = row.f0.getValue();
            List<Long> same = state.get(ts);
            same = same == null ? new ArrayList<>() : same;
            same.add(row.f2.getValue());
            state.put(ts, same);
            context.timerService().registerEventTimeTimer(ts);
        }

        @Override
        public void onTimer(
                long ts, OnTimerContext context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            long known = info.value() == null ? 0 : info.value();
            List<Long> same = views.get(ts);
            for (int i = 0; same != null && i < same.size(); i++) {
                out.collect(result(ts, context.getCurrentKey(), same.get(i), known));
            }
            same = updates.get(ts);
            for (int i = 0; same != null && i < same.size(); i++) {
                out.collect(result(ts, context.getCurrentKey(), -1, known));
                known = -same.get(i);
            }
            info.update(known);
            views.remove(ts);
            updates.remove(ts);
        }
    }

    private static final class InfoInOrder
            implements FlatMapFunction<
                    Tuple4<LongValue, LongValue, LongValue, LongValue>, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private final Map<Long, Long> info = new HashMap<>();

        @Override
        public void flatMap(
                Tuple4<LongValue, LongValue, LongValue, LongValue> row,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            long page = row.f1.getValue();
            long value = row.f2.getValue();
            out.collect(result(row.f0.getValue(), page, value < 0 ? -1 : value, info.getOrDefault(page, 0L)));
            if (value < 0) {
                info.put(page, -value);
            }
        }
    }
}
