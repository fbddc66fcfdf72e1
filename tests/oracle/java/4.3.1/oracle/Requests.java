package oracle;

import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.tools.DumpLogSegments;

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
        all.put("run_log", Logs::run);
        all.put("run_sessions", LogSessions::run);
        all.put("clean_logs", Cleaning::run);
        all.put("run_cleaner_states", CleanerStates::run);
        all.put("open_logs", Recoveries::openLogs);
        all.put("start_log_manager", LogDirs::start);
        all.put("initialize_log_dirs", LogDirs::initialize);
        all.put("open_metadata_log", Recoveries::openMetadataLog);
        all.put("producer_states", ProducerStates::run);
        all.put("leader_epochs", LeaderEpochs::run);
        all.put("validate_appends", Validation::run);
        all.put("run_indexes", Indexes::run);
        all.put("run_segments", Segments::run);
        all.put("parse_settings", Settings::parse);
        all.put("setting_names", Settings::names);
        all.put("lock", Locks::lock);
        all.put("unlock", Locks::unlock);
        all.put("replay_metadata", Images::replay);
        all.put("load_groups", Groups::load);
        all.put("read_file", Files::read);
        all.put("write_file", Files::write);
        all.put("message_schemas", Messages::schemas);
        all.put("message_schema", RandomMessages::schema);
        all.put("random_messages", RandomMessages::answer);
        all.put("decode_message", Messages::decode);
        all.put("encode_message", Messages::encode);
        all.put("decode_coordinator", Messages::decodeCoordinator);
        all.put("encode_coordinator", Messages::encodeCoordinator);
        all.put("decode_metadata", Messages::decodeMetadata);
        all.put("encode_metadata", arguments -> Messages.encodeRecord("metadata", arguments));
        all.put("decode_remote", Messages::decodeRemote);
        all.put("remote_segments", RemoteSegments::run);
        all.put("encode_remote", arguments -> Messages.encodeRecord("remote", arguments));
        return all;
    }
}
