package oracle;

import com.fasterxml.jackson.databind.JsonNode;

/** One kind of request: its arguments to its answer. Whatever it throws becomes the answer's error. */
@FunctionalInterface
public interface Handler {
    JsonNode answer(JsonNode arguments) throws Exception;
}
