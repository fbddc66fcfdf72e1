package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.server.util.FileLock;

/** `lock`: a log dir's `.lock` as a broker takes it, held until `unlock` (which a broker that is killed never says). */
final class Locks {
    private static final Map<String, FileLock> HELD = new HashMap<>();

    private Locks() { }

    static JsonNode lock(JsonNode arguments) throws Exception {
        String path = Json.text(arguments, "path");
        FileLock lock = new FileLock(new File(path));
        boolean isHeld = lock.tryLock();
        if (isHeld)
            HELD.put(path, lock);
        else
            lock.unlockAndClose();
        return Json.object().put("held", isHeld);
    }

    static JsonNode unlock(JsonNode arguments) throws Exception {
        FileLock lock = HELD.remove(Json.text(arguments, "path"));
        if (lock != null)
            lock.unlockAndClose();
        return Json.object().put("held", false);
    }
}
