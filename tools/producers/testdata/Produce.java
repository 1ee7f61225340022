// Writes impressions with Apache's own producer: run with `java -cp 'JARS/*' Produce.java BROKERS TOPIC REST`. Each line of
// the standard input says what one producer writes: MODE CODEC PARTITION PREFIX RECORDS LINGER.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Produce {
    public static void main(String[] args) throws Exception {
        String rest = Files.readString(Path.of(args[2]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split(" ");
            Properties config = new Properties();
            config.put("bootstrap.servers", args[0]);
            config.put("compression.type", word[1]);
            config.put("linger.ms", word[5]);
            config.put("batch.size", word[5].equals("0") ? "16384" : "900000");
            config.put("enable.idempotence", String.valueOf(!word[0].equals("plain")));
            if (word[0].equals("transactional")) {
                config.put("transactional.id", word[3]);
            }
            write(config, args[1], Integer.parseInt(word[2]), word[3], Integer.parseInt(word[4]), rest);
        }
    }

    static void write(Properties config, String topic, int partition, String prefix, int records, String rest) throws Exception {
        boolean transactional = config.containsKey("transactional.id");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < records; i++) {
                String key = prefix + "-" + i;
                String value = "{\"impression_id\":\"" + key + "\"," + rest;
                sent.add(producer.send(new ProducerRecord<>(topic, partition, key.getBytes(StandardCharsets.UTF_8),
                    value.getBytes(StandardCharsets.UTF_8))));
            }
            producer.flush();
            for (Future<?> f : sent) {
                f.get();
            }
            if (transactional) {
                producer.commitTransaction();
            }
        }
    }
}
