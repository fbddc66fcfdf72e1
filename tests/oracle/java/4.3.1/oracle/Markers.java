package oracle;

import java.nio.ByteBuffer;
import org.apache.kafka.common.message.EndTxnMarker;
import org.apache.kafka.common.protocol.MessageUtil;

/** The value of an end-transaction marker in a version that is asked for, not the newest. */
final class Markers {
    private Markers() { }

    static ByteBuffer value(short version, int coordinatorEpoch) {
        EndTxnMarker marker = new EndTxnMarker().setCoordinatorEpoch(coordinatorEpoch);
        return MessageUtil.toVersionPrefixedByteBuffer(version, marker);
    }
}
