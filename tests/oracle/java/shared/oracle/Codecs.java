package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/** `compress` and `decompress`: {codec, level, magic, bytes} through the streams that batches use. */
final class Codecs {
    private Codecs() { }

    static JsonNode compress(JsonNode arguments) throws Exception {
        ByteBufferOutputStream sink = new ByteBufferOutputStream(1024);
        byte magic = (byte) Json.integer(arguments, "magic", 2);
        try (OutputStream stream = Batches.compression(arguments).wrapForOutput(sink, magic)) {
            stream.write(Json.bytes(arguments, "bytes"));
        }
        ByteBuffer buffer = sink.buffer().duplicate();
        buffer.flip();
        return answer(Json.base64(buffer));
    }

    static JsonNode decompress(JsonNode arguments) throws Exception {
        ByteBuffer source = Json.buffer(arguments, "bytes");
        byte magic = (byte) Json.integer(arguments, "magic", 2);
        try (InputStream stream = Batches.compression(arguments)
                .wrapForInput(source, magic, BufferSupplier.NO_CACHING)) {
            return answer(Json.base64(stream.readAllBytes()));
        }
    }

    private static ObjectNode answer(JsonNode bytes) {
        ObjectNode answer = Json.object();
        answer.set("bytes", bytes);
        return answer;
    }
}
