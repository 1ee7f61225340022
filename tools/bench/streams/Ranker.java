// The worker's task as a Kafka Streams job, exactly once: what the benchmark holds the worker against. Run with
// `java -cp 'JARS/*' Ranker.java BROKERS APPLICATION IMPRESSIONS SELECTIONS PAYOFFS RANKINGS memory|rocksdb STATE THREADS`.
//
// It reads impressions, and keeps for each item how often and how much it was paid; ranks the candidates by an index like MOSS's, in the
// order that the worker's policies give; writes the ranking; keeps what was shown under the impression's id; and joins the selection
// and the payoff, which change what is known of the item. docs/contribute/benchmarks.md says what the worker does beyond that.
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

public class Ranker {
    public static void main(String[] args) {
        boolean memory = args[6].equals("memory");
        Topology topology = new Topology()
            .addSource("sources", new ByteArrayDeserializer(), new ByteArrayDeserializer(), args[2], args[3], args[4])
            .addProcessor("rank", () -> new Rank(args[2], args[3]), "sources")
            .addStateStore(store("items", memory), "rank")
            .addStateStore(store("pending", memory), "rank")
            .addStateStore(store("totals", memory), "rank")
            .addSink("rankings", args[5], new ByteArraySerializer(), new ByteArraySerializer(), "rank");
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[7]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[8]);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        KafkaStreams streams = new KafkaStreams(topology, config);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            Runtime.getRuntime().halt(0); // to be told to end is no failure
        }));
        streams.start();
    }

    // store is kept in a changelog too, as it comes: there a task finds it again elsewhere.
    static StoreBuilder<KeyValueStore<Bytes, byte[]>> store(String name, boolean memory) {
        KeyValueBytesStoreSupplier supplier = memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentKeyValueStore(name);
        return Stores.keyValueStoreBuilder(supplier, Serdes.Bytes(), Serdes.ByteArray());
    }

    /** Rank is one partition: of impressions, of what was selected and of what it paid. */
    static final class Rank implements Processor<byte[], byte[], byte[], byte[]> {
        private static final Bytes TOTALS = Bytes.wrap(new byte[] {0});
        private static final double VARIANCE = 0.25; // the most that payoffs within [0, 1] can have
        private static final double PRIOR = 1; // so many payoffs of the mean of all items

        private final JsonFactory json = new JsonFactory();
        private final String impressions;
        private final String selections;
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<Bytes, byte[]> items; // name to payoffs and their sum
        private KeyValueStore<Bytes, byte[]> pending; // id to what was shown, or to what was selected
        private KeyValueStore<Bytes, byte[]> totals;
        private long known; // items
        private long payoffs;
        private double sum;
        private Candidates candidates = new Candidates(32);

        Rank(String impressions, String selections) {
            this.impressions = impressions;
            this.selections = selections;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
            items = context.getStateStore("items");
            pending = context.getStateStore("pending");
            totals = context.getStateStore("totals");
            byte[] kept = totals.get(TOTALS);
            if (kept != null) {
                ByteBuffer b = ByteBuffer.wrap(kept);
                known = b.getLong();
                payoffs = b.getLong();
                sum = b.getDouble();
            }
        }

        private void keepTotals() {
            totals.put(TOTALS, ByteBuffer.allocate(24).putLong(known).putLong(payoffs).putDouble(sum).array());
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            String topic = context.recordMetadata().orElseThrow().topic();
            try {
                if (topic.equals(impressions)) {
                    rank(record);
                } else if (topic.equals(selections)) {
                    select(record);
                } else {
                    pay(record);
                }
            } catch (IOException e) {
                throw new IllegalArgumentException("a record that is none", e); // the benchmark writes none of these
            }
        }

        private void rank(Record<byte[], byte[]> record) throws IOException {
            Bytes id = Bytes.wrap(record.key());
            if (pending.get(id) != null) {
                return; // shown already
            }
            candidates.read(json, record.value());
            long before = known;
            for (int i = 0; i < candidates.count; i++) {
                Bytes name = Bytes.wrap(candidates.items[i].getBytes(StandardCharsets.UTF_8));
                byte[] stats = items.get(name);
                if (stats == null) { // it counts as an item from now on
                    items.put(name, stats(0, 0));
                    known++;
                }
                candidates.stats[i] = stats;
            }
            if (known > before) {
                keepTotals();
            }
            double fair = (double) payoffs / known;
            double mean = payoffs > 0 ? sum / payoffs : 0.5;
            for (int i = 0; i < candidates.count; i++) {
                candidates.index[i] = index(candidates.stats[i], mean, fair);
            }
            candidates.order();
            pending.put(id, candidates.shown());
            context.forward(record.withValue(candidates.ranking(json)));
        }

        // index is MOSS's, around a mean that is drawn towards that of all items.
        private static double index(byte[] stats, double mean, double fair) {
            double n = 0;
            double paid = 0;
            if (stats != null) {
                ByteBuffer b = ByteBuffer.wrap(stats);
                n = b.getLong();
                paid = b.getDouble();
            }
            double weight = n + PRIOR;
            return (paid + PRIOR * mean) / weight + Math.sqrt(2 * VARIANCE * Math.log(1 + fair / weight) / weight);
        }

        private static byte[] stats(long n, double paid) {
            return ByteBuffer.allocate(16).putLong(n).putDouble(paid).array();
        }

        // select keeps of an impression the item alone. The first selection of what was shown counts.
        private void select(Record<byte[], byte[]> record) throws IOException {
            Bytes id = Bytes.wrap(record.key());
            byte[] shown = pending.get(id);
            if (shown == null || shown[0] != SHOWN) {
                return;
            }
            String item = null;
            try (JsonParser p = json.createParser(record.value())) {
                for (p.nextToken(); p.nextToken() == JsonToken.FIELD_NAME;) {
                    String field = p.currentName();
                    p.nextToken();
                    if (field.equals("item")) {
                        item = p.getText();
                    } else {
                        p.skipChildren();
                    }
                }
            }
            if (item == null || !isAmong(shown, item.getBytes(StandardCharsets.UTF_8))) {
                return;
            }
            byte[] name = item.getBytes(StandardCharsets.UTF_8);
            pending.put(id, ByteBuffer.allocate(1 + name.length).put(SELECTED).put(name).array());
        }

        // pay learns from the payoff of what was selected, and forgets the impression.
        private void pay(Record<byte[], byte[]> record) throws IOException {
            Bytes id = Bytes.wrap(record.key());
            byte[] selected = pending.get(id);
            if (selected == null || selected[0] != SELECTED) {
                return;
            }
            double payoff = 0;
            try (JsonParser p = json.createParser(record.value())) {
                for (p.nextToken(); p.nextToken() == JsonToken.FIELD_NAME;) {
                    String field = p.currentName();
                    p.nextToken();
                    if (field.equals("payoff")) {
                        payoff = Math.max(0, Math.min(1, p.getDoubleValue()));
                    } else {
                        p.skipChildren();
                    }
                }
            }
            Bytes item = Bytes.wrap(ByteBuffer.allocate(selected.length - 1).put(selected, 1, selected.length - 1).array());
            ByteBuffer stats = ByteBuffer.wrap(items.get(item));
            items.put(item, stats(stats.getLong() + 1, stats.getDouble() + payoff));
            pending.delete(id);
            payoffs++;
            sum += payoff;
            keepTotals();
        }
    }

    // What the value of a pending impression begins with.
    static final byte SHOWN = 0;
    static final byte SELECTED = 1;

    // isAmong finds an item among those shown, each with a zero byte before it.
    static boolean isAmong(byte[] shown, byte[] item) {
        for (int from = 1; from <= shown.length; ) {
            int to = from;
            while (to < shown.length && shown[to] != 0) {
                to++;
            }
            if (java.util.Arrays.equals(shown, from, to, item, 0, item.length)) {
                return true;
            }
            from = to + 1;
        }
        return false;
    }

    /** Candidates of one impression, in memory that the next one uses again. */
    static final class Candidates {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream(1024);
        private String id;
        private int count;
        private String[] items;
        private double[] utility;
        private byte[][] stats;
        private double[] index;
        private int[] byUtility; // positions, the lowest first
        private int[] leader; // of those from here on: the position in byUtility with the largest index
        private int[] shown; // positions, as they are to be shown

        Candidates(int room) {
            grow(room);
        }

        private void grow(int room) {
            items = items == null ? new String[room] : java.util.Arrays.copyOf(items, room);
            utility = utility == null ? new double[room] : java.util.Arrays.copyOf(utility, room);
            stats = new byte[room][];
            index = new double[room];
            byUtility = new int[room];
            leader = new int[room];
            shown = new int[room];
        }

        void read(JsonFactory json, byte[] text) throws IOException {
            count = 0;
            try (JsonParser p = json.createParser(text)) {
                for (p.nextToken(); p.nextToken() == JsonToken.FIELD_NAME;) {
                    String field = p.currentName();
                    p.nextToken();
                    switch (field) {
                        case "impression_id" -> id = p.getText();
                        case "candidates" -> {
                            while (p.nextToken() == JsonToken.START_OBJECT) {
                                candidate(p);
                            }
                        }
                        default -> p.skipChildren();
                    }
                }
            }
        }

        private void candidate(JsonParser p) throws IOException {
            if (count == items.length) {
                grow(2 * count);
            }
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String field = p.currentName();
                p.nextToken();
                switch (field) {
                    case "item" -> items[count] = p.getText();
                    case "utility" -> utility[count] = p.getDoubleValue();
                    default -> p.skipChildren();
                }
            }
            count++;
        }

        // order shows the item with the largest index first, behind it those that users would prefer less, and then the same with
        // those that they would prefer.
        void order() {
            for (int i = 0; i < count; i++) {
                int at = i;
                for (; at > 0 && utility[byUtility[at - 1]] > utility[i]; at--) {
                    byUtility[at] = byUtility[at - 1];
                }
                byUtility[at] = i;
            }
            for (int i = count - 1; i >= 0; i--) {
                leader[i] = i == count - 1 || index[byUtility[i]] >= index[byUtility[leader[i + 1]]] ? i : leader[i + 1];
            }
            int n = 0;
            for (int first = 0; first < count; ) {
                int last = leader[first];
                for (int i = last; i >= first; i--) {
                    shown[n++] = byUtility[i];
                }
                first = last + 1;
            }
        }

        byte[] shown() {
            out.reset();
            for (int i = 0; i < count; i++) {
                out.write(SHOWN);
                out.writeBytes(items[shown[i]].getBytes(StandardCharsets.UTF_8));
            }
            return out.toByteArray();
        }

        byte[] ranking(JsonFactory json) throws IOException {
            out.reset();
            try (JsonGenerator g = json.createGenerator(out)) {
                g.writeStartObject();
                g.writeStringField("impression_id", id);
                g.writeArrayFieldStart("items");
                for (int i = 0; i < count; i++) {
                    g.writeString(items[shown[i]]);
                }
                g.writeEndArray();
                g.writeEndObject();
            }
            return out.toByteArray();
        }
    }
}
