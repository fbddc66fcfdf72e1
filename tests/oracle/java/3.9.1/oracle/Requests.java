package oracle;

import java.util.Map;
import java.util.TreeMap;
import kafka.tools.DumpLogSegments;

/** Every request this release's oracle answers. */
final class Requests {
    private Requests() { }

    static Map<String, Handler> all() {
        Map<String, Handler> all = new TreeMap<>();
        all.put("sleep", Main::sleep);
        all.put("dump", new Dump(DumpLogSegments::main));
        all.put("build_batch", Batches::build);
        all.put("read_batches", Batches::read);
        all.put("compress", Codecs::compress);
        all.put("decompress", Codecs::decompress);
        all.put("build_segment", Bench::buildSegment);
        all.put("bench_records", Bench::run);
        all.put("clean_logs", Cleaning::run);
        return all;
    }
}
