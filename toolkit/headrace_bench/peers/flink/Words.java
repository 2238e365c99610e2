import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Numbers of words, in the order in which they come: one dictionary for all subtasks of this virtual machine.
 *
 * It serves both versions, and is kinder than what a job of several machines could have.
 */
final class Words {
    private static final ConcurrentHashMap<String, Integer> codes = new ConcurrentHashMap<>();
    private static volatile long[] numbers = new long[1 << 10];

    private Words() {}

    static void reset() {
        codes.clear();
    }

    static int codeOf(String word) {
        Integer code = codes.get(word);
        return code != null ? code : add(word);
    }

    private static synchronized int add(String word) {
        Integer known = codes.get(word);
        if (known != null) {
            return known;
        }
        int code = codes.size();
        if (code == numbers.length) {
            numbers = Arrays.copyOf(numbers, 2 * code);
        }
        long number = 0;
        for (int i = 0; i < word.length(); i++) {
            number = number * 31 + word.charAt(i);
        }
        numbers[code] = number;
        codes.put(word, code); // publishes the number
        return code;
    }

    /** What a word is in the digest, as headrace_bench.digest has it; words are ASCII. */
    static long numberOf(int code) {
        return numbers[code];
    }
}
