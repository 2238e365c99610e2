import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The input, read once into arrays of this virtual machine: what a connector would have parsed. One array a source. */
final class Columns {
    static volatile long[][] ts;
    static volatile int[][] keys;
    static volatile long[][] values;
    static volatile int[][] words;
    static volatile int[][] offsets;
    static volatile String[][] texts;
    /** Both sides of the band join: x and y, a and b. */
    static volatile int[][] integers;
    static volatile float[][] reals;
    /** Of the ledger. */
    static volatile long[] sourceAccounts;
    static volatile long[] targetAccounts;
    static volatile long[] sourceAssets;
    static volatile long[] targetAssets;
    static volatile long[] amounts;
    static volatile long[] quantities;

    private Columns() {}

    static void load(String workload, Path folder) throws IOException {
        int sources = Files.exists(folder.resolve("1")) ? 2 : 1;
        ts = new long[sources][];
        keys = new int[sources][];
        values = new long[sources][];
        words = new int[sources][];
        offsets = new int[sources][];
        texts = new String[sources][];
        integers = new int[sources][];
        reals = new float[sources][];
        for (int source = 0; source < sources; source++) {
            Path files = folder.resolve(Integer.toString(source));
            ts[source] = longs(files.resolve("ts.bin"));
            switch (workload) {
                case "aggregate", "forward", "window", "pageview" -> {
                    keys[source] = narrow(longs(files.resolve("key.bin")));
                    values[source] = longs(files.resolve("value.bin"));
                }
                case "sessions" -> {
                    keys[source] = narrow(longs(files.resolve("visitor.bin")));
                    texts[source] = strings(files.resolve("kind.bin"), files.resolve("kind.offsets.bin"));
                }
                case "ledger", "deposits" -> {
                    texts[source] = strings(files.resolve("kind.bin"), files.resolve("kind.offsets.bin"));
                    sourceAccounts = longs(files.resolve("source.bin"));
                    targetAccounts = longs(files.resolve("target.bin"));
                    sourceAssets = longs(files.resolve("source_asset.bin"));
                    targetAssets = longs(files.resolve("target_asset.bin"));
                    amounts = longs(files.resolve("amount.bin"));
                    quantities = longs(files.resolve("quantity.bin"));
                }
                case "text" -> texts[source] = strings(files.resolve("text.bin"), files.resolve("text.offsets.bin"));
                case "band" -> {
                    integers[source] = ints(files.resolve(source == 0 ? "x.bin" : "a.bin"));
                    reals[source] = floats(files.resolve(source == 0 ? "y.bin" : "b.bin"));
                }
                default -> {
                    words[source] = ints(files.resolve(workload + ".bin"));
                    offsets[source] = ints(files.resolve(workload + ".offsets.bin"));
                }
            }
        }
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

    private static float[] floats(Path file) throws IOException {
        ByteBuffer buffer = bytes(file);
        float[] read = new float[buffer.remaining() / Float.BYTES];
        buffer.asFloatBuffer().get(read);
        return read;
    }

    private static String[] strings(Path file, Path offsetsFile) throws IOException {
        ByteBuffer buffer = bytes(file);
        byte[] all = new byte[buffer.remaining()];
        buffer.get(all);
        int[] at = ints(offsetsFile);
        String[] read = new String[at.length - 1];
        for (int i = 0; i < read.length; i++) {
            read[i] = new String(all, at[i], at[i + 1] - at[i], StandardCharsets.ISO_8859_1);
        }
        return read;
    }

    private static int[] narrow(long[] wide) {
        int[] narrow = new int[wide.length];
        for (int i = 0; i < wide.length; i++) {
            narrow[i] = (int) wide[i];
        }
        return narrow;
    }
}
