"""Writes impressions with librdkafka: run with `python produce.py BROKERS TOPIC REST`. Each line of the standard input
says what one producer writes: MODE CODEC PARTITION PREFIX RECORDS LINGER."""
import sys

from confluent_kafka import Producer

brokers, topic, rest = sys.argv[1], sys.argv[2], open(sys.argv[3], encoding="utf-8").read()
for line in sys.stdin:
    mode, codec, partition, prefix, records, linger = line.split()
    config = {
        "bootstrap.servers": brokers,
        "compression.type": codec,
        "linger.ms": int(linger),
        "queue.buffering.max.messages": 1_000_000,
        "enable.idempotence": mode != "plain",
    }
    if mode == "transactional":
        config["transactional.id"] = prefix
    producer = Producer(config)
    if mode == "transactional":
        producer.init_transactions(30)
        producer.begin_transaction()
    faults = []
    for i in range(int(records)):
        key = f"{prefix}-{i}"
        producer.produce(topic, key=key, value='{"impression_id":"' + key + '",' + rest, partition=int(partition),
                         on_delivery=lambda err, _: faults.append(err) if err else None)
    left = producer.flush(60)
    if mode == "transactional":
        producer.commit_transaction(30)
    if left or faults:
        sys.exit(f"{prefix}: {left} records were not delivered, {len(faults)} refused: {faults[:1]}")
