import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Numbers words in their order of arrival: one dictionary for all subtasks of this virtual machine.
 *
 * Both versions use it. It is cheaper than anything that a job on several machines could have.
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

    /** A word's number in the digest, as in headrace_bench.digest; words are ASCII. */
    static long numberOf(int code) {
        return numbers[code];
    }
}
