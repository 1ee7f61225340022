"""Ranks, selects and pays by a client that is generated from docs/openapi.yaml. Argument: where the door listens."""

import sys

from generated import Client
from generated.api.records import add_payoffs, add_selections, get_ranking, rank
from generated.models import Candidate, Impression, Payoff, Problem, Ranked, Selection, Written

client = Client(base_url=sys.argv[1])

impression = Impression(
    impression_id="python/1",
    candidates=[Candidate(item="a", utility=0.1), Candidate(item="b", utility=0.7)],
)
ranking = rank.sync(client=client, body=impression)
assert isinstance(ranking, Ranked) and not ranking.substitute and len(ranking.items) == 2, ranking

again = get_ranking.sync(impression.impression_id, client=client)
assert isinstance(again, Ranked) and again.items == ranking.items, again

selection = Selection(impression_id=impression.impression_id, item=ranking.items[0])
selected = add_selections.sync(client=client, body=selection)
assert isinstance(selected, Written) and selected.written == 1, selected

paid = add_payoffs.sync(client=client, body=[Payoff(impression_id=impression.impression_id, payoff=0.5)])
assert isinstance(paid, Written) and paid.written == 1, paid

refused = rank.sync(client=client, body=Impression(impression_id="python/2", candidates=[]))
assert isinstance(refused, Problem) and refused.errors[0].pointer == "#/candidates", refused
