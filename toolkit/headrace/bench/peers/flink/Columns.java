import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** The input, read once into arrays of this virtual machine: what a connector would have parsed. */
final class Columns {
    static volatile long[] ts;
    static volatile int[] keys;
    static volatile long[] values;
    static volatile int[] words;
    static volatile int[] offsets;

    private Columns() {}

    static void load(String workload, Path folder) throws IOException {
        clear();
        ts = longs(folder.resolve("ts.bin"));
        if (workload.equals("aggregate")) {
            long[] wide = longs(folder.resolve("key.bin"));
            int[] narrow = new int[wide.length];
            for (int i = 0; i < wide.length; i++) {
                narrow[i] = (int) wide[i];
            }
            keys = narrow;
            values = longs(folder.resolve("value.bin"));
        } else {
            words = ints(folder.resolve("words.bin"));
            offsets = ints(folder.resolve("words.offsets.bin"));
        }
    }

    static void clear() {
        ts = values = null;
        keys = words = offsets = null;
    }

    private static ByteBuffer bytes(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    private static long[] longs(Path file) throws IOException {
        ByteBuffer buffer = bytes(file);
        long[] read = new long[buffer.remaining() / Long.BYTES];
        buffer.asLongBuffer().get(read);
        return read;
    }

    private static int[] ints(Path file) throws IOException {
        ByteBuffer buffer = bytes(file);
        int[] read = new int[buffer.remaining() / Integer.BYTES];
        buffer.asIntBuffer().get(read);
        return read;
    }
}
