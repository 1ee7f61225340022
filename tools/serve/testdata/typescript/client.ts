// Ranks, selects and pays by a client whose types are generated from docs/openapi.yaml. Argument: where the door listens.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });

function must<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(what);
  return value;
}

const impression: components["schemas"]["Impression"] = {
  impression_id: "typescript/1",
  candidates: [
    { item: "a", utility: 0.1 },
    { item: "b", utility: 0.7 },
  ],
};
const ranked = await client.POST("/v1/rank", { body: impression });
const ranking = must(ranked.data, "no ranking");
if (ranking.substitute || ranking.items.length !== 2) throw new Error(`ranked as ${JSON.stringify(ranking)}`);

const again = await client.GET("/v1/rankings/{id}", { params: { path: { id: impression.impression_id } } });
if (must(again.data, "not repeated").items.join() !== ranking.items.join()) throw new Error("another ranking");

const item = must(ranking.items[0], "an empty ranking");
const selected = await client.POST("/v1/selections", { body: { impression_id: impression.impression_id, item } });
const paid = await client.POST("/v1/payoffs", { body: [{ impression_id: impression.impression_id, payoff: 0.5 }] });
if (must(selected.data, "not selected").written !== 1 || must(paid.data, "not paid").written !== 1) throw new Error("not written");

const faulty = await client.POST("/v1/rank", { body: { impression_id: "typescript/2", candidates: [] } });
const problem = must(faulty.error, "a faulty impression was taken");
if (problem.errors?.[0]?.pointer !== "#/candidates") throw new Error(`refused as ${JSON.stringify(problem)}`);
