package oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.util.Scheduler;

/**
 * No threads: what Kafka wants done at once is done at once, what it wants done later waits for `runPending`.
 *
 * <p>So the flush after a roll happens, a deleted segment keeps its .deleted files, and producers do not
 * expire, until a test says so.
 */
final class StillScheduler implements Scheduler {
    private final List<Runnable> pending = new ArrayList<>();

    @Override
    public void startup() { }

    @Override
    public void shutdown() { }

    @Override
    public void resizeThreadPool(int newSize) { }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        if (periodMs > 0)
            return new Never();
        if (delayMs > 0)
            pending.add(task);
        else
            task.run();
        return new Never();
    }

    int runPending() {
        List<Runnable> due = List.copyOf(pending);
        pending.clear();
        due.forEach(Runnable::run);
        return due.size();
    }

    private static final class Never implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return Long.MAX_VALUE;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }

        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            return true;
        }

        @Override
        public boolean isCancelled() {
            return false;
        }

        @Override
        public boolean isDone() {
            return false;
        }

        @Override
        public Void get() {
            return null;
        }

        @Override
        public Void get(long timeout, TimeUnit unit) {
            return null;
        }
    }
}
