package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Base64;

/** The few JSON helpers all requests share. Bytes travel as base64; null stays null. */
public final class Json {
    public static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() { }

    public static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }

    public static ArrayNode array() {
        return JsonNodeFactory.instance.arrayNode();
    }

    public static boolean has(JsonNode node, String name) {
        return node.hasNonNull(name);
    }

    public static JsonNode required(JsonNode node, String name) {
        if (!node.hasNonNull(name))
            throw new IllegalArgumentException("the request lacks " + name);
        return node.get(name);
    }

    public static String text(JsonNode node, String name) {
        return required(node, name).asText();
    }

    public static String text(JsonNode node, String name, String otherwise) {
        return node.hasNonNull(name) ? node.get(name).asText() : otherwise;
    }

    public static long number(JsonNode node, String name, long otherwise) {
        return node.hasNonNull(name) ? node.get(name).longValue() : otherwise;
    }

    public static int integer(JsonNode node, String name, int otherwise) {
        return Math.toIntExact(number(node, name, otherwise));
    }

    public static short small(JsonNode node, String name, int otherwise) {
        long value = number(node, name, otherwise);
        if (value != (short) value)
            throw new IllegalArgumentException(name + " is no int16: " + value);
        return (short) value;
    }

    public static boolean flag(JsonNode node, String name, boolean otherwise) {
        return node.hasNonNull(name) ? node.get(name).asBoolean() : otherwise;
    }

    public static byte[] bytes(JsonNode node, String name) throws IOException {
        return node.hasNonNull(name) ? Base64.getDecoder().decode(node.get(name).asText()) : null;
    }

    public static ByteBuffer buffer(JsonNode node, String name) throws IOException {
        byte[] bytes = bytes(node, name);
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    public static JsonNode base64(byte[] bytes) {
        return bytes == null ? NullNode.instance
            : TextNode.valueOf(Base64.getEncoder().encodeToString(bytes));
    }

    /** The buffer's remaining bytes; its position is not moved. */
    public static JsonNode base64(ByteBuffer buffer) {
        if (buffer == null)
            return NullNode.instance;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return base64(bytes);
    }

    public static ObjectNode error(Throwable problem) {
        ObjectNode node = object();
        node.put("class", problem.getClass().getName());
        node.put("message", problem.getMessage());
        return node;
    }
}
