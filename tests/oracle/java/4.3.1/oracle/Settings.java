package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.storage.internals.log.LogConfig;

/** What Kafka makes of properties: KafkaConfig of a broker's, LogConfig of a topic's on top of it. */
final class Settings {
    private static final Map<String, String> NEEDED = Map.of(
        "process.roles", "broker",
        "node.id", "1",
        "controller.quorum.voters", "2@localhost:9093",
        "controller.listener.names", "CONTROLLER",
        "listeners", "PLAINTEXT://localhost:9092",
        "log.dirs", "none");  // a name: nothing is opened

    private Settings() { }

    /** cases: broker, default (dynamic, of all brokers), dynamic (of this one), topic: all optional. */
    static JsonNode parse(JsonNode arguments) {
        ArrayNode answers = Json.array();
        for (JsonNode each : Json.required(arguments, "cases")) {
            ObjectNode answer = answers.addObject();
            try {
                Map<String, Object> values = values(each);
                ObjectNode found = answer.putObject("values");
                new TreeMap<>(values).forEach((name, value) -> found.set(name, Json.MAPPER.valueToTree(value)));
            } catch (Exception error) {
                answer.put("error_class", error.getClass().getSimpleName());
                answer.put("error", error.getMessage());
            }
        }
        return answers;
    }

    private static Map<String, Object> values(JsonNode each) {
        Properties topic = properties(each.path("topic"));
        Map<String, String> names = new HashMap<>();
        topic.forEach((name, value) -> names.put((String) name, (String) value));
        LogConfig.validateNames(names);
        Properties broker = properties(each.path("broker"));
        NEEDED.forEach(broker::putIfAbsent);
        KafkaConfig config = KafkaConfig.fromProps(broker, false);
        if (each.has("default") || each.has("dynamic")) {
            config.dynamicConfig().initialize(scala.Option.empty());
            config.dynamicConfig().updateDefaultConfig(properties(each.path("default")), false);
            config.dynamicConfig().updateBrokerConfig(1, properties(each.path("dynamic")), false);
        }
        LogConfig log = LogConfig.fromProps(config.extractLogConfigMap(), topic);
        Map<String, Object> values = new HashMap<>(log.values());
        LogConfig.validateValues(values);
        values.put("segment size", log.segmentSize());
        values.put("is compact", log.compact);
        values.put("is delete", log.delete);
        return values;
    }

    private static Properties properties(JsonNode node) {
        Properties properties = new Properties();
        node.fields().forEachRemaining(field -> properties.put(field.getKey(), field.getValue().asText()));
        return properties;
    }

    /** Names of every setting: of topics, and of brokers. */
    static JsonNode names(JsonNode arguments) {
        ObjectNode node = Json.object();
        node.set("topic", Json.MAPPER.valueToTree(LogConfig.configNames()));
        node.set("broker", Json.MAPPER.valueToTree(List.copyOf(KafkaConfig.configDef().names())));
        ObjectNode defaults = node.putObject("broker_defaults");
        for (ConfigDef.ConfigKey key : KafkaConfig.configDef().configKeys().values())
            defaults.set(key.name, key.hasDefault() ? Json.MAPPER.valueToTree(plain(key.defaultValue)) : null);
        return node;
    }

    private static Object plain(Object value) {
        return value instanceof Number || value instanceof Boolean || value instanceof List || value == null
            ? value : value.toString();
    }
}
