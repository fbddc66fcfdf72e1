package oracle;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/** A clock that stands still until it is told to move, so that the same seed gives the same bytes. */
final class FixedTime implements Time {
    private long now;

    FixedTime(long now) {
        this.now = now;
    }

    void set(long milliseconds) {
        now = milliseconds;
    }

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return now * 1_000_000;
    }

    @Override
    public void sleep(long milliseconds) {
        now += milliseconds;
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        throw new UnsupportedOperationException("nothing here waits");
    }
}
