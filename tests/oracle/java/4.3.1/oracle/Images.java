package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** The image that a broker makes of metadata records, as the records of a snapshot. */
final class Images {
    private Images() { }

    /** records: framed, in the order of the log. → records; failed_at and error of one refused. */
    static JsonNode replay(JsonNode arguments) {
        ObjectNode answer = Json.object();
        MetadataRecordSerde serde = new MetadataRecordSerde();
        MetadataImage image = MetadataImage.EMPTY;
        int index = 0;
        for (JsonNode each : Json.required(arguments, "records")) {
            ByteBuffer buffer = ByteBuffer.wrap(Base64.getDecoder().decode(each.asText()));
            try {
                ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(buffer), buffer.remaining());
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                delta.replay(record.message());
                image = delta.apply(new MetadataProvenance(index, 0, 0, true));
            } catch (RuntimeException error) {
                answer.put("failed_at", index);
                answer.put("error", String.valueOf(error.getMessage()));
                break;
            }
            index++;
        }
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(
            image.features().metadataVersion().orElse(MetadataVersion.latestProduction()))
            .setEligibleLeaderReplicasEnabled(true).build());
        ArrayNode records = answer.putArray("records");
        for (ApiMessageAndVersion record : writer.records()) {
            ByteBuffer bytes = Messages.framed(serde, record.message(), record.version());
            records.add(Base64.getEncoder().encodeToString(bytes.array()));
        }
        return answer;
    }
}
