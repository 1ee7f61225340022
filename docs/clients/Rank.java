// Has one impression ranked, and sends its selection and its payoff. With kafka-clients and jackson-databind on the class path:
//
//     java -cp 'JARS/*' Rank.java BROKERS [PREFIX]
//
// PREFIX is what the names of topics begin with, if anything.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Rank {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        String brokers = args[0], prefix = args.length > 1 ? args[1] : "";
        // All producers of these topics need one partitioner: Java's default.
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", brokers, "acks", "all"),
                 new StringSerializer(), new StringSerializer());
             var rankings = new KafkaConsumer<>(Map.<String, Object>of("bootstrap.servers", brokers),
                 new StringDeserializer(), new StringDeserializer())) {
            // A service reads the rankings of all impressions, from now on, for as long as it runs.
            List<TopicPartition> partitions = rankings.partitionsFor(prefix + "rankings").stream()
                .map(p -> new TopicPartition(p.topic(), p.partition())).toList();
            rankings.assign(partitions);
            rankings.seekToEnd(partitions);
            partitions.forEach(rankings::position); // seeks now, and not at the first poll

            String impression = UUID.randomUUID().toString();
            send(producer, prefix + "impressions", Map.of("impression_id", impression, "learner", "feed", "time", now(),
                "candidates", List.of(Map.of("item", "a", "utility", 0.1), Map.of("item", "b", "utility", 0.7))));

            JsonNode items = await(rankings, impression).get("items");
            System.out.println("to be shown: " + items);

            send(producer, prefix + "selections", Map.of("impression_id", impression, "time", now(),
                "item", items.get(0).asText())); // what the user took
            send(producer, prefix + "payoffs", Map.of("impression_id", impression, "time", now(),
                "payoff", 0.8)); // days later, what it was worth
        }
    }

    static String now() {
        return Instant.now().truncatedTo(ChronoUnit.MILLIS).toString();
    }

    /** Publishes a record, whose key is its impression, and waits until the brokers have it. */
    static void send(KafkaProducer<String, String> producer, String topic, Map<String, Object> record) throws Exception {
        producer.send(new ProducerRecord<>(topic, (String) record.get("impression_id"), JSON.writeValueAsString(record))).get();
    }

    static JsonNode await(KafkaConsumer<String, String> rankings, String impression) throws Exception {
        for (Instant until = Instant.now().plusSeconds(30); Instant.now().isBefore(until); ) {
            for (ConsumerRecord<String, String> r : rankings.poll(Duration.ofSeconds(1))) {
                if (impression.equals(r.key())) {
                    return JSON.readTree(r.value());
                }
            }
        }
        throw new IllegalStateException("no ranking within 30 s: does a worker run? ranker-worker doctor names the cause");
    }
}
