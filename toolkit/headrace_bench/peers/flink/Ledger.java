import java.util.Comparator;
import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * The Streaming Ledger; the result is (ts, balance, quantity, 0) of each event, -1 where it was rejected, in their order.
 *
 * `stock`: a transfer reads two accounts and two assets, which no one key of Flink covers, so a keyed function with a single
 * key keeps both tables in its state and takes all events in order. Deposits alone are split by account and by asset, and
 * one subtask behind both joins the two halves of each event, in order. `expert` keeps arrays in one function chained to
 * the source, without state that could be saved.
 */
final class Ledger {
    /** Event time between two watermarks, in ms. */
    private static final long MARK = 100;
    private static final long AT_FIRST = 10_000;
    private static final int RECORDS = 10_000;

    private Ledger() {}

    static void build(StreamExecutionEnvironment env, String workload, String version) {
        DataStream<IntValue> rows =
                env.addSource(new Replay(0, MARK, 0), "input", Jobs.ROW_NUMBER).setParallelism(1);
        SingleOutputStreamOperator<Tuple4<LongValue, LongValue, LongValue, LongValue>> results;
        if (version.equals("expert")) {
            results = rows.map(new Arrays()).returns(Jobs.RESULT);
        } else if (workload.equals("ledger")) {
            results = rows.keyBy(row -> 0, Types.INT).process(new OneByOne()).returns(Jobs.RESULT);
        } else {
            DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> accounts = rows
                    .keyBy(row -> Columns.targetAccounts[row.getValue()], Types.LONG)
                    .process(new Held(0))
                    .returns(Jobs.RESULT);
            DataStream<Tuple4<LongValue, LongValue, LongValue, LongValue>> assets = rows
                    .keyBy(row -> Columns.targetAssets[row.getValue()], Types.LONG)
                    .process(new Held(1))
                    .returns(Jobs.RESULT);
            results = accounts.union(assets).keyBy(row -> 0, Types.INT).process(new Paired()).returns(Jobs.RESULT);
        }
        results.setParallelism(1).addSink(new Results(true)).setParallelism(1).name("results");
    }

    private static Tuple4<LongValue, LongValue, LongValue, LongValue> row(long a, long b, long c, long d) {
        return new Tuple4<>(new LongValue(a), new LongValue(b), new LongValue(c), new LongValue(d));
    }

    private static boolean isFine(int i) {
        return Columns.amounts[i] >= 0 && Columns.quantities[i] >= 0;
    }

    /** Both tables in keyed state, under one key. */
    private static final class OneByOne
            extends KeyedProcessFunction<Integer, IntValue, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private transient MapState<Long, Long> accounts;
        private transient MapState<Long, Long> assets;

        @Override
        public void open(OpenContext context) {
            accounts = getRuntimeContext().getMapState(new MapStateDescriptor<>("accounts", Types.LONG, Types.LONG));
            assets = getRuntimeContext().getMapState(new MapStateDescriptor<>("assets", Types.LONG, Types.LONG));
        }

        private static long held(MapState<Long, Long> table, long key) throws Exception {
            Long found = table.get(key);
            return found == null ? AT_FIRST : found;
        }

        private static long add(MapState<Long, Long> table, long key, long much) throws Exception {
            long now = held(table, key) + much;
            table.put(key, now);
            return now;
        }

        @Override
        public void processElement(
                IntValue number, Context context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            int i = number.getValue();
            long amount = Columns.amounts[i];
            long quantity = Columns.quantities[i];
            boolean isFine = isFine(i);
            if (isFine && Columns.texts[0][i].equals("transfer")) {
                isFine = held(accounts, Columns.sourceAccounts[i]) >= amount && held(assets, Columns.sourceAssets[i]) >= quantity;
                if (isFine) {
                    add(accounts, Columns.sourceAccounts[i], -amount);
                    add(assets, Columns.sourceAssets[i], -quantity);
                }
            }
            out.collect(isFine
                    ? row(
                            Columns.ts[0][i],
                            add(accounts, Columns.targetAccounts[i], amount),
                            add(assets, Columns.targetAssets[i], quantity),
                            0)
                    : row(Columns.ts[0][i], -1, -1, 0));
        }
    }

    /** Balance or quantity after a deposit: (ts, number of the row, the amount, which table). */
    private static final class Held
            extends KeyedProcessFunction<Long, IntValue, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private final int table;
        private transient ValueState<Long> held;

        Held(int table) {
            this.table = table;
        }

        @Override
        public void open(OpenContext context) {
            held = getRuntimeContext().getState(new ValueStateDescriptor<>("held", Types.LONG));
        }

        @Override
        public void processElement(
                IntValue number, Context context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
                throws Exception {
            int i = number.getValue();
            long now = -1;
            if (isFine(i)) {
                Long before = held.value();
                now = (before == null ? AT_FIRST : before) + (table == 0 ? Columns.amounts[i] : Columns.quantities[i]);
                held.update(now);
            }
            out.collect(row(Columns.ts[0][i], i, now, table));
        }
    }

    /** Joins the two halves of each event, in the order of the events' numbers. */
    private static final class Paired extends ByTime {
        @Override
        void give(
                long ts,
                List<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows,
                Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out) {
            rows.sort(Comparator.comparingLong((Tuple4<LongValue, LongValue, LongValue, LongValue> each) ->
                            each.f1.getValue())
                    .thenComparingLong(each -> each.f3.getValue()));
            for (int i = 0; i < rows.size(); i += 2) {
                out.collect(row(ts, rows.get(i).f2.getValue(), rows.get(i + 1).f2.getValue(), 0));
            }
        }
    }

    /** Keeps both tables as arrays. */
    private static final class Arrays implements MapFunction<IntValue, Tuple4<LongValue, LongValue, LongValue, LongValue>> {
        private transient long[] accounts;
        private transient long[] assets;
        private transient Tuple4<LongValue, LongValue, LongValue, LongValue> result;

        @Override
        public Tuple4<LongValue, LongValue, LongValue, LongValue> map(IntValue number) {
            if (accounts == null) {
                accounts = new long[RECORDS];
                assets = new long[RECORDS];
                java.util.Arrays.fill(accounts, AT_FIRST);
                java.util.Arrays.fill(assets, AT_FIRST);
                result = row(0, 0, 0, 0);
            }
            int i = number.getValue();
            long amount = Columns.amounts[i];
            long quantity = Columns.quantities[i];
            boolean isFine = isFine(i);
            if (isFine && Columns.texts[0][i].equals("transfer")) {
                int source = (int) Columns.sourceAccounts[i];
                int sourceAsset = (int) Columns.sourceAssets[i];
                isFine = accounts[source] >= amount && assets[sourceAsset] >= quantity;
                if (isFine) {
                    accounts[source] -= amount;
                    assets[sourceAsset] -= quantity;
                }
            }
            result.f0.setValue(Columns.ts[0][i]);
            result.f1.setValue(isFine ? accounts[(int) Columns.targetAccounts[i]] += amount : -1);
            result.f2.setValue(isFine ? assets[(int) Columns.targetAssets[i]] += quantity : -1);
            return result;
        }
    }
}
