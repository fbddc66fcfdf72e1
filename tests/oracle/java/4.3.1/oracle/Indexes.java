package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.file.Files;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AbstractIndex;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

/**
 * `run_indexes`: {runs: [{kind, path, base_offset, max_index_size, steps}]}; for every step its answer (or error)
 * and the bytes of the file. Kinds: offset, time, transaction. The step `open` comes first, and after a `close`.
 */
final class Indexes {
    private final String kind;
    private final File file;
    private final long baseOffset;
    private final int maxIndexSize;
    private AbstractIndex index;
    private TransactionIndex transactions;

    private Indexes(JsonNode run) {
        kind = Json.text(run, "kind");
        file = new File(Json.text(run, "path")).getAbsoluteFile();
        baseOffset = Json.number(run, "base_offset", 0);
        maxIndexSize = Json.integer(run, "max_index_size", 1024);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode told = Json.array();
        for (JsonNode run : arguments.path("runs")) {
            Indexes indexes = new Indexes(run);
            ArrayNode steps = told.addArray();
            for (JsonNode step : run.path("steps"))
                steps.add(indexes.after(step));
            if (indexes.index != null)
                indexes.index.closeHandler();
            if (indexes.transactions != null)
                indexes.transactions.close();
        }
        return told;
    }

    private ObjectNode after(JsonNode step) throws Exception {
        ObjectNode told = Json.object();
        try {
            told.set("answer", kind.equals("transaction") ? transactionStep(step) : step(step));
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
        }
        told.set("bytes", file.exists() ? Json.base64(Files.readAllBytes(file.toPath())) : NullNode.instance);
        if (index != null)
            told.put("entries", index.entries()).put("max_entries", index.maxEntries())
                .put("length", index.length()).put("is_full", index.isFull());
        return told;
    }

    private JsonNode step(JsonNode step) throws Exception {
        switch (Json.text(step, "do")) {
            case "open":
                index = kind.equals("offset")
                    ? new OffsetIndex(file, baseOffset, maxIndexSize) : new TimeIndex(file, baseOffset, maxIndexSize);
                return NullNode.instance;
            case "append":
                if (index instanceof OffsetIndex)
                    ((OffsetIndex) index).append(number(step, "offset"), (int) number(step, "position"));
                else
                    ((TimeIndex) index).maybeAppend(
                        number(step, "timestamp"), number(step, "offset"), Json.flag(step, "skip_full_check", false));
                return NullNode.instance;
            case "lookup":
                return index instanceof OffsetIndex
                    ? tell(((OffsetIndex) index).lookup(number(step, "target")))
                    : tell(((TimeIndex) index).lookup(number(step, "target")));
            case "upper_bound":
                return ((OffsetIndex) index)
                    .fetchUpperBoundOffset(new OffsetPosition(0, (int) number(step, "position")), (int) number(step, "size"))
                    .map(Indexes::tell).orElse(NullNode.instance);
            case "last":
                return index instanceof OffsetIndex
                    ? Json.array().add(((OffsetIndex) index).lastOffset()) : tell(((TimeIndex) index).lastEntry());
            case "truncate_to":
                index.truncateTo(number(step, "offset"));
                return NullNode.instance;
            case "resize":
                return Json.array().add(index.resize((int) number(step, "size")));
            case "reset":
                index.reset();
                return NullNode.instance;
            case "trim":
                index.trimToValidSize();
                return NullNode.instance;
            case "sanity_check":
                index.sanityCheck();
                return NullNode.instance;
            case "close":
                index.close();
                return NullNode.instance;
            case "crash":
                index.closeHandler();
                return NullNode.instance;
            case "write": // as nobody does, on a closed index
                Files.write(file.toPath(), Json.bytes(step, "bytes"));
                return NullNode.instance;
            default:
                throw new IllegalStateException("unknown step " + step);
        }
    }

    private JsonNode transactionStep(JsonNode step) throws Exception {
        switch (Json.text(step, "do")) {
            case "open":
                transactions = new TransactionIndex(baseOffset, file);
                return NullNode.instance;
            case "append":
                transactions.append(new AbortedTxn(number(step, "producer_id"), number(step, "first_offset"),
                    number(step, "last_offset"), number(step, "last_stable_offset")));
                return NullNode.instance;
            case "all":
                return tell(transactions.allAbortedTxns());
            case "collect":
                TxnIndexSearchResult found =
                    transactions.collectAbortedTxns(number(step, "fetch_offset"), number(step, "upper_bound_offset"));
                return Json.array().add(tell(found.abortedTransactions())).add(found.isComplete());
            case "is_empty":
                return Json.array().add(transactions.isEmpty());
            case "truncate_to":
                transactions.truncateTo(number(step, "offset"));
                return NullNode.instance;
            case "reset":
                transactions.reset();
                return NullNode.instance;
            case "sanity_check":
                transactions.sanityCheck();
                return NullNode.instance;
            case "close":
                transactions.close();
                return NullNode.instance;
            case "write":
                Files.write(file.toPath(), Json.bytes(step, "bytes"));
                return NullNode.instance;
            default:
                throw new IllegalStateException("unknown step " + step);
        }
    }

    private static long number(JsonNode step, String name) {
        return Json.required(step, name).longValue();
    }

    private static JsonNode tell(OffsetPosition entry) {
        return Json.array().add(entry.offset()).add(entry.position());
    }

    private static JsonNode tell(TimestampOffset entry) {
        return Json.array().add(entry.timestamp()).add(entry.offset());
    }

    static ArrayNode tell(Iterable<AbortedTxn> found) {
        ArrayNode told = Json.array();
        for (AbortedTxn txn : found)
            told.addArray().add(txn.producerId()).add(txn.firstOffset()).add(txn.lastOffset())
                .add(txn.lastStableOffset());
        return told;
    }
}
