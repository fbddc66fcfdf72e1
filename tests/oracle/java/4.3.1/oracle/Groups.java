package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.yammer.metrics.core.MetricsRegistry;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.ListGroupsResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.ShareGroupDescribeResponseData;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * `load_groups`: a GroupCoordinatorShard that replays the records of a partition of __consumer_offsets.
 *
 * <p>{records: [{offset, producer_id, key, value} or {producer_id, marker}], metadata: [framed], now, retention_ms}:
 * `groups` with what ListGroups, the describe requests and OffsetFetch answer, and what cleanupGroupMetadata removes.
 */
final class Groups {
    private static final long LATEST = Long.MAX_VALUE - 1;

    private Groups() { }

    static JsonNode load(JsonNode arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("offsets.retention.minutes", (int) (Json.number(arguments, "retention_ms", 604_800_000L) / 60_000));
        GroupCoordinatorConfig config = new GroupCoordinatorConfig(
            new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, settings, false));
        ObjectNode answer = Json.object();
        FixedTime time = new FixedTime(Json.number(arguments, "now", 0));
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        GroupCoordinatorShard shard = new GroupCoordinatorShard.Builder(
                config, new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(Map.of())))
            .withAuthorizerPlugin(Optional.empty())
            .withLogContext(new LogContext())
            .withSnapshotRegistry(registry)
            .withTime(time)
            .withTimer(new NoTimer())
            .withExecutor(new NoExecutor())
            .withCoordinatorMetrics(new GroupCoordinatorMetrics(new MetricsRegistry(), new Metrics()))
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0))
            .build();
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        long last = -1;
        for (JsonNode each : Json.required(arguments, "records")) {
            long producerId = Json.number(each, "producer_id", -1);
            try {
                if (Json.has(each, "marker")) {
                    shard.replayEndTransactionMarker(
                        producerId, (short) 0, TransactionResult.valueOf(Json.text(each, "marker")));
                } else {
                    last = Json.number(each, "offset", 0);
                    CoordinatorRecord record;
                    try {
                        record = serde.deserialize(Json.buffer(each, "key"), Json.buffer(each, "value"));
                    } catch (org.apache.kafka.coordinator.common.runtime.Deserializer.UnknownRecordTypeException e) {
                        continue;
                    }
                    shard.replay(last, producerId, (short) 0, record);
                }
            } catch (RuntimeException error) {
                answer.put("failed_at", last);
                answer.put("error", String.valueOf(error.getMessage()));
                break;
            }
        }
        shard.onLoaded(new KRaftCoordinatorMetadataImage(image(arguments.path("metadata"))));
        registry.idempotentCreateSnapshot(LATEST);
        ArrayNode groups = answer.putArray("groups");
        for (ListGroupsResponseData.ListedGroup each : shard.listGroups(List.of(), List.of(), LATEST)) {
            ObjectNode group = groups.addObject()
                .put("group", each.groupId()).put("type", each.groupType())
                .put("state", each.groupState()).put("protocol", each.protocolType());
            describe(shard, group);
            offsets(shard, group);
        }
        ArrayNode removed = answer.putArray("removed");
        for (CoordinatorRecord record : shard.cleanupGroupMetadata().records()) {
            if (record.key() instanceof OffsetCommitKey key) {
                removed.addObject().put("group", key.group()).put("topic", key.topic())
                    .put("partition", key.partition());
            } else {
                removed.addObject().put("type", record.key().apiKey());
            }
        }
        return answer;
    }

    private static void describe(GroupCoordinatorShard shard, ObjectNode group) {
        List<String> ids = List.of(group.get("group").asText());
        ArrayNode members = group.putArray("members");
        switch (group.get("type").asText()) {
            case "classic" -> {
                DescribeGroupsResponseData.DescribedGroup found = shard.describeGroups(null, ids, LATEST).get(0);
                group.put("assignor", found.protocolData());
                for (DescribeGroupsResponseData.DescribedGroupMember each : found.members())
                    members.addObject().put("member_id", each.memberId()).put("instance_id", each.groupInstanceId())
                        .put("client_id", each.clientId()).put("client_host", each.clientHost())
                        .set("assignment_bytes", Json.base64(ByteBuffer.wrap(each.memberAssignment())));
            }
            case "consumer" -> {
                ConsumerGroupDescribeResponseData.DescribedGroup found =
                    shard.consumerGroupDescribe(ids, LATEST).get(0);
                group.put("epoch", found.groupEpoch()).put("assignment_epoch", found.assignmentEpoch())
                    .put("assignor", found.assignorName());
                for (ConsumerGroupDescribeResponseData.Member each : found.members()) {
                    ObjectNode member = members.addObject().put("member_id", each.memberId())
                        .put("instance_id", each.instanceId()).put("client_id", each.clientId())
                        .put("client_host", each.clientHost()).put("rack_id", each.rackId())
                        .put("epoch", each.memberEpoch()).put("is_classic", each.memberType() == 0)
                        .put("subscribed_regex", each.subscribedTopicRegex());
                    names(member, each.subscribedTopicNames());
                    partitions(member, "assignment", each.assignment().topicPartitions(),
                        one -> one.topicName(), one -> one.partitions());
                    partitions(member, "target_assignment", each.targetAssignment().topicPartitions(),
                        one -> one.topicName(), one -> one.partitions());
                }
            }
            case "share" -> {
                ShareGroupDescribeResponseData.DescribedGroup found = shard.shareGroupDescribe(ids, LATEST).get(0);
                group.put("epoch", found.groupEpoch()).put("assignment_epoch", found.assignmentEpoch());
                for (ShareGroupDescribeResponseData.Member each : found.members()) {
                    ObjectNode member = members.addObject().put("member_id", each.memberId())
                        .put("client_id", each.clientId()).put("client_host", each.clientHost())
                        .put("rack_id", each.rackId()).put("epoch", each.memberEpoch());
                    names(member, each.subscribedTopicNames());
                    partitions(member, "assignment", each.assignment().topicPartitions(),
                        one -> one.topicName(), one -> one.partitions());
                }
            }
            default -> {
                StreamsGroupDescribeResponseData.DescribedGroup found;
                try {
                    found = shard.streamsGroupDescribe(ids, LATEST).get(0);
                } catch (IllegalStateException | NullPointerException withoutTopologyOrAssignment) {
                    return;
                }
                group.put("epoch", found.groupEpoch()).put("assignment_epoch", found.assignmentEpoch());
                for (StreamsGroupDescribeResponseData.Member each : found.members()) {
                    ObjectNode member = members.addObject().put("member_id", each.memberId())
                        .put("instance_id", each.instanceId()).put("client_id", each.clientId())
                        .put("client_host", each.clientHost()).put("rack_id", each.rackId())
                        .put("epoch", each.memberEpoch()).put("process_id", each.processId());
                    member.set("assignment", tasks(each.assignment()));
                    member.set("target_assignment", tasks(each.targetAssignment()));
                }
            }
        }
    }

    private static JsonNode tasks(StreamsGroupDescribeResponseData.Assignment assignment) {
        ObjectNode found = Json.object();
        Map.of("active", assignment.activeTasks(), "standby", assignment.standbyTasks(),
            "warmup", assignment.warmupTasks()).forEach((kind, tasks) -> {
                ArrayNode all = found.putArray(kind);
                for (StreamsGroupDescribeResponseData.TaskIds each : tasks) {
                    ArrayNode numbers = all.addObject().put("subtopology", each.subtopologyId())
                        .putArray("partitions");
                    each.partitions().forEach(numbers::add);
                }
            });
        return found;
    }

    private static void names(ObjectNode member, Collection<String> names) {
        ArrayNode sorted = member.putArray("subscribed_topics");
        new TreeSet<>(names == null ? List.of() : names).forEach(sorted::add);
    }

    private static <T> void partitions(
        ObjectNode member, String field, List<T> found, Function<T, String> name, Function<T, List<Integer>> numbers) {
        Map<String, List<Integer>> sorted = new TreeMap<>();
        for (T each : found)
            sorted.put(name.apply(each), new ArrayList<>(new TreeSet<>(numbers.apply(each))));
        ArrayNode all = member.putArray(field);
        sorted.forEach((topic, partitions) -> {
            ArrayNode array = all.addObject().put("topic", topic).putArray("partitions");
            partitions.forEach(array::add);
        });
    }

    private static void offsets(GroupCoordinatorShard shard, ObjectNode group) throws Exception {
        ArrayNode all = group.putArray("offsets");
        if (group.get("type").asText().equals("share"))
            return;
        shard.fetchOffsets(
                new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group.get("group").asText())
                    .setTopics(null), LATEST)
            .topics().forEach(topic -> topic.partitions().forEach(each -> all.addObject()
                .put("topic", topic.name()).put("partition", each.partitionIndex())
                .put("committed_offset", each.committedOffset()).put("leader_epoch", each.committedLeaderEpoch())
                .put("metadata", each.metadata())));
    }

    private static MetadataImage image(JsonNode records) {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (JsonNode each : records) {
            ByteBuffer buffer = ByteBuffer.wrap(Base64.getDecoder().decode(each.asText()));
            delta.replay(serde.read(new ByteBufferAccessor(buffer), buffer.remaining()).message());
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    private static final class NoTimer implements CoordinatorTimer<CoordinatorRecord> {
        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) { }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, long backoff,
            TimeoutOperation<CoordinatorRecord> operation) { }

        @Override
        public void scheduleIfAbsent(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) { }

        @Override
        public void cancel(String key) { }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }
    }

    private static final class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(
            String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            return false;
        }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }

        @Override
        public void cancel(String key) { }
    }
}
