// Has one impression ranked, and sends its selection and its payoff.
//
//     npm install kafkajs
//     node rank.mjs BROKERS [PREFIX]
//
// PREFIX is what the names of topics begin with, if anything.
import { randomUUID } from "node:crypto";
import { Kafka, Partitioners, logLevel } from "kafkajs";

const [brokers, prefix = ""] = process.argv.slice(2);
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });

// All producers of these topics need one partitioner. KafkaJS 2 has that of Java; KafkaJS 1 had another, its LegacyPartitioner.
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });

// send publishes a record, whose key is its impression, and waits until the brokers have it.
async function send(topic, record) {
  const value = JSON.stringify({ ...record, time: new Date().toISOString() });
  await producer.send({ topic: prefix + topic, acks: -1, messages: [{ key: record.impression_id, value }] });
}

await producer.connect();
const impression = randomUUID();

// A service reads the rankings of all impressions, from now on, for as long as it runs.
const admin = kafka.admin();
await admin.connect();
const topic = prefix + "rankings";
const ends = await admin.fetchTopicOffsets(topic);
const rankings = kafka.consumer({ groupId: `rank.mjs-${impression}` });
await rankings.connect();
await rankings.subscribe({ topic });
const ranking = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("no ranking within 30 s: does a worker run? ranker-worker doctor names the cause")), 30_000).unref();
  rankings.run({
    eachMessage: async ({ message }) => {
      if (message.key?.toString() === impression) resolve(JSON.parse(message.value.toString()));
    },
  }).catch(reject);
});
for (const { partition, high } of ends) rankings.seek({ topic, partition, offset: high });

await send("impressions", {
  impression_id: impression,
  learner: "feed",
  candidates: [{ item: "a", utility: 0.1 }, { item: "b", utility: 0.7 }],
});
const { items } = await ranking;
console.log("to be shown:", ...items);

await send("selections", { impression_id: impression, item: items[0] }); // what the user took
await send("payoffs", { impression_id: impression, payoff: 0.8 }); // days later, what it was worth
await Promise.all([admin, rankings, producer].map((client) => client.disconnect()));
