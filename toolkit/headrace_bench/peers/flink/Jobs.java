import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.ValueTypeInfo;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/** Both versions of each workload: `stock` has Flink's own windows, `expert` an operator of primitive arrays. */
final class Jobs {
    static final TypeInformation<Tuple2<IntValue, LongValue>> PAIR =
            new TupleTypeInfo<>(ValueTypeInfo.INT_VALUE_TYPE_INFO, ValueTypeInfo.LONG_VALUE_TYPE_INFO);
    static final TypeInformation<IntValue> ROW_NUMBER = ValueTypeInfo.INT_VALUE_TYPE_INFO;
    static final TypeInformation<Tuple4<LongValue, LongValue, LongValue, LongValue>> RESULT =
            new TupleTypeInfo<>(
                    ValueTypeInfo.LONG_VALUE_TYPE_INFO,
                    ValueTypeInfo.LONG_VALUE_TYPE_INFO,
                    ValueTypeInfo.LONG_VALUE_TYPE_INFO,
                    ValueTypeInfo.LONG_VALUE_TYPE_INFO);

    private Jobs() {}

    static void build(
            StreamExecutionEnvironment env,
            String workload,
            long size,
            String version,
            int parallelism,
            long perSecond) {
        switch (workload) {
            case "forward" -> Forward.build(env, version);
            case "window", "pageview" -> Programs.build(env, workload, version, parallelism);
            case "band" -> Band.build(env, version, size);
            case "sessions" -> Sessions.build(env);
            case "ledger", "deposits" -> Ledger.build(env, workload, version);
            default -> windows(env, workload, version, parallelism, perSecond);
        }
    }

    private static void windows(
            StreamExecutionEnvironment env, String workload, String version, int parallelism, long perSecond) {
        boolean isAggregate = workload.equals("aggregate");
        boolean isText = workload.equals("text");
        long advance = isAggregate ? 10_000 : 60_000;
        int perWindow = isAggregate ? 1 : 2;
        DataStream<IntValue> rows =
                env.addSource(new Replay(0, advance, perSecond), "input", ROW_NUMBER);
        DataStream<Tuple2<IntValue, LongValue>> keyed =
                rows.flatMap(isAggregate ? new ValueOfRow() : isText ? new WordsOfText() : new PairsOfRow()).returns(PAIR);
        DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> results;
        if (version.equals("stock")) {
            results = stock(keyed, isAggregate, isText, advance, perWindow);
        } else {
            // One subtask needs no exchange: all operators are chained into calls on one thread.
            DataStream<Tuple2<IntValue, LongValue>> dealt = parallelism == 1
                    ? keyed.forward()
                    : keyed.partitionCustom((Integer key, int parts) -> key % parts, pair -> pair.f0.getValue());
            results = dealt.transform("panes", RESULT, new Panes(advance, perWindow, parallelism, !isAggregate, isText));
        }
        results.addSink(new Results(false)).name("results");
    }

    /** Flink's own windows, with incremental aggregation. */
    static SingleOutputStreamOperator<Tuple4<LongValue, LongValue, LongValue, LongValue>> stock(
            DataStream<Tuple2<IntValue, LongValue>> keyed,
            boolean isAggregate,
            boolean isText,
            long advance,
            int perWindow) {
        WindowAssigner<Object, TimeWindow> windows = isAggregate
                ? TumblingEventTimeWindows.of(Duration.ofMillis(advance))
                : SlidingEventTimeWindows.of(Duration.ofMillis(perWindow * advance), Duration.ofMillis(advance));
        return keyed.keyBy(pair -> pair.f0.getValue(), Types.INT)
                .window(windows)
                .aggregate(
                        new SumAndCount(),
                        new WithKey(!isAggregate, isText),
                        Types.TUPLE(Types.LONG, Types.LONG),
                        Types.TUPLE(Types.LONG, Types.LONG),
                        RESULT)
                .uid("windows");
    }

    /** key and value of a row */
    private static final class ValueOfRow implements FlatMapFunction<IntValue, Tuple2<IntValue, LongValue>> {
        private final Tuple2<IntValue, LongValue> pair = new Tuple2<>(new IntValue(), new LongValue());

        @Override
        public void flatMap(IntValue row, Collector<Tuple2<IntValue, LongValue>> out) {
            pair.f0.setValue(Columns.keys[0][row.getValue()]);
            pair.f1.setValue(Columns.values[0][row.getValue()]);
            out.collect(pair);
        }
    }

    /** The Map of Corollary 1: emits a tuple for each word of a text, which has no word twice. */
    private static final class WordsOfText implements FlatMapFunction<IntValue, Tuple2<IntValue, LongValue>> {
        private final Tuple2<IntValue, LongValue> pair = new Tuple2<>(new IntValue(), new LongValue());

        @Override
        public void flatMap(IntValue row, Collector<Tuple2<IntValue, LongValue>> out) {
            String text = Columns.texts[0][row.getValue()];
            for (int begin = 0; begin < text.length(); ) {
                int end = text.indexOf(' ', begin);
                end = end < 0 ? text.length() : end;
                pair.f0.setValue(Words.codeOf(text.substring(begin, end)));
                out.collect(pair);
                begin = end + 1;
            }
        }
    }

    /** The same for pairs of words, which are numbers here. */
    private static final class PairsOfRow implements FlatMapFunction<IntValue, Tuple2<IntValue, LongValue>> {
        private final Tuple2<IntValue, LongValue> pair = new Tuple2<>(new IntValue(), new LongValue());

        @Override
        public void flatMap(IntValue row, Collector<Tuple2<IntValue, LongValue>> out) {
            int[] words = Columns.words[0];
            int[] offsets = Columns.offsets[0];
            int end = offsets[row.getValue() + 1];
            for (int i = offsets[row.getValue()]; i < end; i++) {
                pair.f0.setValue(words[i]);
                out.collect(pair);
            }
        }
    }

    private static final class SumAndCount
            implements AggregateFunction<Tuple2<IntValue, LongValue>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return new Tuple2<>(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple2<IntValue, LongValue> pair, Tuple2<Long, Long> state) {
            state.f0 += pair.f1.getValue();
            state.f1++;
            return state;
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> state) {
            return state;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return new Tuple2<>(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    private static final class WithKey
            extends ProcessWindowFunction<
                    Tuple2<Long, Long>, Tuple4<LongValue, LongValue, LongValue, LongValue>, Integer, TimeWindow> {
        private final boolean countOnly;
        private final boolean isText;
        private final Tuple4<LongValue, LongValue, LongValue, LongValue> row =
                new Tuple4<>(new LongValue(), new LongValue(), new LongValue(), new LongValue());

        WithKey(boolean countOnly, boolean isText) {
            this.countOnly = countOnly;
            this.isText = isText;
        }

        @Override
        public void process(
                Integer key,
                Context context,
                Iterable<Tuple2<Long, Long>> states,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            Tuple2<Long, Long> state = states.iterator().next();
            row.f0.setValue(context.window().getEnd());
            row.f1.setValue(isText ? Words.numberOf(key) : key);
            row.f2.setValue(countOnly ? state.f1 : state.f0);
            row.f3.setValue(countOnly ? 0 : state.f1);
            out.collect(row);
        }
    }
}
