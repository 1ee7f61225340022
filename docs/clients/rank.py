"""Has one impression ranked, and sends its selection and its payoff.

    pip install confluent-kafka
    python rank.py BROKERS [PREFIX]

PREFIX is what the names of topics begin with, if anything.
"""
import json
import sys
import time
import uuid
from datetime import datetime, timezone

from confluent_kafka import Consumer, Producer, TopicPartition

brokers, prefix = sys.argv[1], "".join(sys.argv[2:3])

# All producers of these topics need one partitioner, and librdkafka's own default is not that of Java.
producer = Producer({"bootstrap.servers": brokers, "partitioner": "murmur2_random", "acks": "all"})


def send(topic, **record):
    """Publishes a record, whose key is its impression, and waits until the brokers have it."""
    faults = []
    record["time"] = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    producer.produce(prefix + topic, key=record["impression_id"], value=json.dumps(record),
                     on_delivery=lambda fault, _: faults.append(fault) if fault else None)
    if producer.flush(30) or faults:
        sys.exit(f"{topic}: not delivered: {faults}")


# A service reads the rankings of all impressions, from now on, for as long as it runs.
rankings = Consumer({"bootstrap.servers": brokers, "group.id": "rank.py", "enable.auto.commit": False})
name = prefix + "rankings"
partitions = rankings.list_topics(name, timeout=30).topics[name].partitions
ends = {p: rankings.get_watermark_offsets(TopicPartition(name, p), timeout=30)[1] for p in partitions}
rankings.assign([TopicPartition(name, p, end) for p, end in ends.items()])

impression = str(uuid.uuid4())
send("impressions", impression_id=impression, learner="feed",
     candidates=[{"item": "a", "utility": 0.1}, {"item": "b", "utility": 0.7}])

until = time.monotonic() + 30
while True:
    message = rankings.poll(1)
    if message and not message.error() and message.key() == impression.encode():
        items = json.loads(message.value())["items"]
        break
    if time.monotonic() > until:
        sys.exit("no ranking within 30 s: does a worker run? ranker-worker doctor names the cause")
print("to be shown:", *items)

send("selections", impression_id=impression, item=items[0])  # what the user took
send("payoffs", impression_id=impression, payoff=0.8)  # days later, what it was worth
rankings.close()
