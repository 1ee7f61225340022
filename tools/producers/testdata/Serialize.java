// Writes impressions, selections and payoffs with Apache Avro and Google's Protobuf, behind the headers that Confluent's serializers
// write: run with `java -cp 'JARS/*' Serialize.java BROKERS PREFIX DESCRIPTORS RECORDS ID SCHEMA`, where DESCRIPTORS is what protoc has
// made of docs/schemas/ranker.proto, and SCHEMA the registry's of ID.
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Timestamp;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Serialize {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        int id = Integer.parseInt(args[4]);
        Schema schema = new Schema.Parser().parse(args[5]);
        Descriptor impression = file(Path.of(args[2])).findMessageTypeByName("Impression");
        List<Future<?>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < Integer.parseInt(args[3]); i++) {
                String key = "java-" + i;
                byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
                GenericRecord selected = new GenericData.Record(schema);
                selected.put("impression_id", key);
                selected.put("item", "b");
                selected.put("time", System.currentTimeMillis());
                String payoff = "{\"impression_id\":\"" + key + "\",\"payoff\":0.5}";
                sent.add(producer.send(new ProducerRecord<>(args[1] + "impressions", bytes, shown(impression, key))));
                sent.add(producer.send(new ProducerRecord<>(args[1] + "selections", bytes, avro(id, selected))));
                sent.add(producer.send(new ProducerRecord<>(args[1] + "payoffs", bytes, payoff.getBytes(StandardCharsets.UTF_8))));
            }
            producer.flush();
            for (Future<?> f : sent) {
                f.get();
            }
        }
    }

    // file links the descriptors, which stand behind those that they import.
    static FileDescriptor file(Path from) throws Exception {
        Map<String, FileDescriptor> known = new HashMap<>();
        FileDescriptor last = null;
        for (FileDescriptorProto f : FileDescriptorSet.parseFrom(Files.readAllBytes(from)).getFileList()) {
            FileDescriptor[] imports = f.getDependencyList().stream().map(known::get).toArray(FileDescriptor[]::new);
            last = FileDescriptor.buildFrom(f, imports);
            known.put(f.getName(), last);
        }
        return last;
    }

    // shown is an impression without a header.
    static byte[] shown(Descriptor type, String key) {
        Descriptor candidate = type.findFieldByName("candidates").getMessageType();
        DynamicMessage.Builder m = DynamicMessage.newBuilder(type);
        m.setField(type.findFieldByName("impression_id"), key);
        m.setField(type.findFieldByName("time"), Timestamp.newBuilder().setSeconds(System.currentTimeMillis() / 1000).build());
        for (int k = 0; k < 2; k++) {
            m.addRepeatedField(type.findFieldByName("candidates"), DynamicMessage.newBuilder(candidate)
                .setField(candidate.findFieldByName("item"), k == 0 ? "a" : "b")
                .setField(candidate.findFieldByName("utility"), k * 0.75).build());
        }
        return m.build().toByteArray();
    }

    static byte[] avro(int id, GenericRecord record) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(0);
        out.write(ByteBuffer.allocate(4).putInt(id).array());
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        encoder.flush();
        return out.toByteArray();
    }
}
