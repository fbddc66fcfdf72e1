package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;

/**
 * `run_sessions`: one directory opened, worked on and closed several times; what changed, after every step.
 *
 * <p>{runs: [{path, copy_from, sessions: [arguments of run_log]}]}: a session without log_start_offset or
 * recovery_point starts with those that the one before ended with, as a broker's checkpoints would hold.
 */
final class LogSessions {
    private final File directory;
    private final Map<String, String> known = new HashMap<>();
    private ObjectNode lastState;
    private long logStartOffset;
    private long recoveryPoint;

    private LogSessions(File directory) {
        this.directory = directory;
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode runs = Json.array();
        for (JsonNode run : arguments.path("runs")) {
            File directory = new File(Json.text(run, "path")).getAbsoluteFile();
            if (Json.has(run, "copy_from"))
                Logs.copy(Path.of(Json.text(run, "copy_from")), directory.toPath());
            LogSessions sessions = new LogSessions(directory);
            ArrayNode told = runs.addArray();
            for (JsonNode session : run.path("sessions"))
                told.add(sessions.session((ObjectNode) session));
        }
        return runs;
    }

    /** {opened, steps: [{answer, state, files}], closed}; or {error} if the log does not load. */
    private ObjectNode session(ObjectNode arguments) throws Exception {
        if (!Json.has(arguments, "log_start_offset"))
            arguments.put("log_start_offset", logStartOffset);
        if (!Json.has(arguments, "recovery_point"))
            arguments.put("recovery_point", recoveryPoint);
        ObjectNode told = Json.object();
        Logs logs;
        try {
            logs = new Logs(directory, arguments);
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
            told.set("files", changedFiles());
            return told;
        }
        lastState = null;
        try (logs) {
            told.set("opened", after(logs, null));
            ArrayNode steps = told.putArray("steps");
            for (JsonNode step : arguments.path("steps"))
                steps.add(after(logs, logs.tryStep(step)));
            logs.close(Json.text(arguments, "close", "clean"));
            logStartOffset = logs.log().logStartOffset();
            recoveryPoint = logs.log().recoveryPoint();
            ObjectNode closed = told.putObject("closed");
            closed.put("log_start_offset", logStartOffset).put("recovery_point", recoveryPoint);
            closed.set("files", changedFiles());
        }
        return told;
    }

    private ObjectNode after(Logs logs, JsonNode answer) throws IOException {
        ObjectNode told = Json.object();
        told.set("answer", answer);
        told.set("state", changedParts(logs.brief()));
        told.set("files", changedFiles());
        return told;
    }

    private ObjectNode changedParts(ObjectNode state) {
        ObjectNode changed = Json.object();
        state.properties().forEach(part -> {
            if (lastState == null || !part.getValue().equals(lastState.get(part.getKey())))
                changed.set(part.getKey(), part.getValue());
        });
        lastState = state;
        return changed;
    }

    /** Name -> "size digest", and the bytes of a producer snapshot; null for a file that is gone. */
    private ObjectNode changedFiles() throws IOException {
        Map<String, String> now = new HashMap<>();
        String[] names = directory.list();
        Arrays.sort(names);
        for (String name : names) {
            try {
                byte[] bytes = Files.readAllBytes(directory.toPath().resolve(name));
                now.put(name, name.contains(".snapshot") ? Json.base64(bytes).asText() : digest(bytes));
            } catch (NoSuchFileException gone) {
                continue;
            }
        }
        ObjectNode changed = Json.object();
        for (String name : known.keySet())
            if (!now.containsKey(name))
                changed.putNull(name);
        now.forEach((name, digest) -> {
            if (!digest.equals(known.get(name)))
                changed.put(name, digest);
        });
        known.clear();
        known.putAll(now);
        return changed;
    }

    private static String digest(byte[] bytes) {
        CRC32 digest = new CRC32();
        digest.update(bytes);
        return bytes.length + " " + digest.getValue();
    }
}
