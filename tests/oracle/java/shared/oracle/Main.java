package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;
import org.slf4j.LoggerFactory;

/**
 * A JSON request a line on stdin, a JSON answer a line on stdout, until stdin ends.
 *
 * <p>Kafka prints to System.out and calls exit: both are taken away from it before the first request,
 * so that a request can neither disturb the answers nor end the program.
 */
public final class Main {
    /** What Kafka's exit becomes. */
    public static final class ExitCalled extends RuntimeException {
        private static final long serialVersionUID = 1L;
        public final int status;

        ExitCalled(int status, String message) {
            super("exit " + status + (message == null ? "" : ": " + message));
            this.status = status;
        }
    }

    private Main() { }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err);
        LoggerFactory.getLogger(Main.class); // slf4j complains of a missing backend once: here
        Exit.Procedure refuse = (status, message) -> {
            throw new ExitCalled(status, message);
        };
        Exit.setExitProcedure(refuse);
        Exit.setHaltProcedure(refuse);
        Map<String, Handler> handlers = Requests.all();

        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            byte[] answer = Json.MAPPER.writeValueAsBytes(answer(handlers, line));
            answers.write(answer, 0, answer.length);
            answers.write('\n');
            answers.flush();
        }
    }

    /** `sleep`: {seconds}. A request that can be made too slow, for the test of the time-out. */
    static ObjectNode sleep(JsonNode arguments) throws InterruptedException {
        Thread.sleep(1000 * Json.number(arguments, "seconds", 0));
        return Json.object().put("slept", Json.number(arguments, "seconds", 0));
    }

    private static ObjectNode answer(Map<String, Handler> handlers, String line) {
        ObjectNode answer = Json.object();
        try {
            JsonNode request = Json.MAPPER.readTree(line);
            String name = Json.text(request, "request");
            Handler handler = handlers.get(name);
            if (handler == null)
                throw new IllegalArgumentException(
                    "unknown request " + name + ", known: " + handlers.keySet());
            answer.set("result", handler.answer(request.path("arguments")));
        } catch (Throwable problem) { // an Error too: the tests feed Kafka damaged bytes on purpose
            ObjectNode error = Json.error(problem);
            StringWriter trace = new StringWriter();
            problem.printStackTrace(new PrintWriter(trace, true));
            error.put("trace", trace.toString());
            answer.set("error", error);
        }
        return answer;
    }
}
