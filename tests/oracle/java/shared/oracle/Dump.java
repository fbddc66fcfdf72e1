package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * `dump`: DumpLogSegments' main with {args}, to {stdout, stderr, exit, error, seconds}.
 *
 * <p>What it printed before it failed is part of the answer, so a failure is a field here. With {discard}
 * stdout goes nowhere (still formatted and encoded): a benchmark's measure without the JSON around it.
 */
final class Dump implements Handler {
    interface Tool {
        void main(String[] arguments) throws Exception;
    }

    private final Tool tool;

    Dump(Tool tool) {
        this.tool = tool;
    }

    @Override
    public JsonNode answer(JsonNode arguments) throws Exception {
        JsonNode args = Json.required(arguments, "args");
        String[] words = new String[args.size()];
        for (int i = 0; i < words.length; i++)
            words[i] = args.get(i).asText();
        return run(words, Json.flag(arguments, "discard", false));
    }

    private ObjectNode run(String[] words, boolean discard) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        ObjectNode answer = Json.object();
        answer.set("exit", NullNode.instance);
        answer.set("error", NullNode.instance);
        PrintStream ownOut = System.out;
        PrintStream ownErr = System.err;
        long start = System.nanoTime();
        try {
            System.setOut(printer(discard ? OutputStream.nullOutputStream() : out));
            System.setErr(printer(err));
            tool.main(words);
        } catch (Main.ExitCalled exit) {
            answer.put("exit", exit.status);
        } catch (Throwable problem) {
            answer.set("error", Json.error(problem));
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(ownOut);
            System.setErr(ownErr);
        }
        answer.put("seconds", (System.nanoTime() - start) / 1e9);
        answer.put("stdout", out.toString(StandardCharsets.UTF_8));
        answer.put("stderr", err.toString(StandardCharsets.UTF_8));
        return answer;
    }

    private static PrintStream printer(OutputStream sink) {
        return new PrintStream(sink, false, StandardCharsets.UTF_8);
    }
}
