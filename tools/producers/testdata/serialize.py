"""Writes impressions, selections and payoffs with Confluent's serializers: run with `python serialize.py BROKERS REGISTRY PREFIX MODULES
RECORDS`, where MODULES has what protoc has made of docs/schemas/ranker.proto."""
import datetime
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry, prefix, modules, records = sys.argv[1:6]
sys.path.insert(0, modules)
import ranker_pb2  # noqa: E402

SELECTION = json.dumps({
    "type": "record", "name": "Selected", "namespace": "com.example", "fields": [
        {"name": "page", "type": ["null", "string"], "default": None},
        {"name": "impression_id", "type": "string"},
        {"name": "item", "type": "string"},
        {"name": "time", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
})

client = SchemaRegistryClient({"url": registry})
impression = ProtobufSerializer(ranker_pb2.Impression, client, {"use.deprecated.format": False})
selection = AvroSerializer(client, SELECTION)
producer = Producer({"bootstrap.servers": brokers, "partitioner": "murmur2_random"})
faults = []


def send(topic, key, serialize, value):
    topic = prefix + topic
    producer.produce(topic, key=key, value=serialize(value, SerializationContext(topic, MessageField.VALUE)),
                     on_delivery=lambda err, _: faults.append(err) if err else None)


for i in range(int(records)):
    key = f"python-{i}"
    now = datetime.datetime.now(datetime.timezone.utc)
    shown = ranker_pb2.Impression(impression_id=key, learner="feed")
    shown.time.FromDatetime(now)
    shown.candidates.add(item="a", utility=0.0)
    shown.candidates.add(item="b", utility=0.75)
    send("impressions", key, impression, shown)
    send("selections", key, selection, {"page": "home", "impression_id": key, "item": "b", "time": now})
    send("payoffs", key, lambda value, _: json.dumps(value).encode(), {"impression_id": key, "payoff": 0.5, "item": "b"})
left = producer.flush(60)
if left or faults:
    sys.exit(f"{left} records were not delivered, {len(faults)} refused: {faults[:1]}")
