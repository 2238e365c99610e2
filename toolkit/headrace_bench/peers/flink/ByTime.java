import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;

/**
 * Keeps rows by event time until the timer of that time, then emits all rows of that time in the order that `give` makes.
 *
 * A row has crossed an exchange, so it may be kept without a copy.
 */
abstract class ByTime
        extends KeyedProcessFunction<
                Integer,
                Tuple4<LongValue, LongValue, LongValue, LongValue>,
                Tuple4<LongValue, LongValue, LongValue, LongValue>> {
    private transient MapState<Long, List<Tuple4<LongValue, LongValue, LongValue, LongValue>>> waiting;

    /** Emits the rows of one time, which arrived in any order. */
    abstract void give(
            long ts,
            List<Tuple4<LongValue, LongValue, LongValue, LongValue>> rows,
            Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
            throws Exception;

    @Override
    public void open(OpenContext context) {
        waiting = getRuntimeContext()
                .getMapState(new MapStateDescriptor<>("waiting", Types.LONG, Types.LIST(Jobs.RESULT)));
    }

    @Override
    public void processElement(
            Tuple4<LongValue, LongValue, LongValue, LongValue> row,
            Context context,
            Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
            throws Exception {
        long ts = context.timestamp();
        List<Tuple4<LongValue, LongValue, LongValue, LongValue>> same = waiting.get(ts);
        if (same == null) {
            same = new ArrayList<>();
            context.timerService().registerEventTimeTimer(ts);
        }
        same.add(row);
        waiting.put(ts, same);
    }

    @Override
    public void onTimer(
            long ts, OnTimerContext context, Collector<Tuple4<LongValue, LongValue, LongValue, LongValue>> out)
            throws Exception {
        give(ts, waiting.get(ts), out);
        waiting.remove(ts);
    }
}
