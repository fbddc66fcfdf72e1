package oracle;

import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;

/** The value of an end-transaction marker: 3.9 knows version 0 alone. */
final class Markers {
    private Markers() { }

    static ByteBuffer value(short version, int coordinatorEpoch) {
        if (version != 0)
            throw new IllegalArgumentException("3.9.1 writes markers of version 0, not " + version);
        return new EndTransactionMarker(ControlRecordType.COMMIT, coordinatorEpoch).serializeValue();
    }
}
