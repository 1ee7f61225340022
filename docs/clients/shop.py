"""Simulates the users of a small shop, over HTTP: python3 docs/clients/shop.py [HOST:PORT]"""
import heapq, http.client, json, random, sys, time, uuid

# product: (utility: its click score, share of clicks that buy, margin of a purchase)
shop = {"poster": (0.9, 0.30, 1), "mug": (0.8, 0.20, 2), "shirt": (0.7, 0.20, 4),
        "jacket": (0.6, 0.25, 8), "lamp": (0.5, 0.40, 10), "chair": (0.4, 0.30, 6)}
candidates = [{"item": item, "utility": utility} for item, (utility, _, _) in shop.items()]
server = http.client.HTTPConnection(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081", timeout=10)


def post(path, **record):
    server.request("POST", "/v1/" + path, json.dumps(record), {"Content-Type": "application/json"})
    response = server.getresponse()
    answer = json.load(response)
    if response.status >= 300:
        sys.exit(f"{path}: {response.status} {answer}")
    return answer


started, visits, earned, since, report, purchases = time.time(), 0, 0, 0, 10, []
while True:
    visit = str(uuid.uuid4())
    ranking = post("rank", impression_id=visit, candidates=candidates)
    order, shown = ranking["items"], {"shown": "utility"} if ranking["substitute"] else {}  # the worker was late
    looked_at = order[:random.randint(1, 3)]  # a user sees the first one, two or three
    clicked = max(looked_at, key=lambda item: shop[item][0])  # and clicks the one with the highest utility
    post("selections", impression_id=visit, item=clicked, **shown)
    _, buys, gain = shop[clicked]
    if random.random() < buys:  # some seconds later
        heapq.heappush(purchases, (time.time() + random.expovariate(1 / 5), visit, gain))
        earned += gain
    while purchases and purchases[0][0] < time.time():
        _, of, worth = heapq.heappop(purchases)
        post("payoffs", impression_id=of, payoff=worth)
    visits += 1
    if visits == 1 or visits == report:
        margin = earned / (visits - since)
        print(f"{time.time() - started:4.0f} s {visits:5} visits  margin {margin:5.2f} each  {' '.join(order)}", flush=True)
        report, since, earned = report + min(visits, 400) * (visits > 1), visits, 0
    time.sleep(0.05)
