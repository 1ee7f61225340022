"""Makes flat.jsonl, a synthetic log, and vectors.json: what Open Bandit Pipeline 0.4.1 says of it.

    pip install numpy pandas scikit-learn && pip download --no-deps obp==0.4.1 && unzip obp-0.4.1-py3-none-any.whl -d obp
    python make.py obp

Of obp (Apache 2.0) only the estimators are loaded, which need no torch. Nothing of its data is used: the log is drawn here. The reward model
of the doubly robust estimate is the one of this package, worked out here once more.
"""
import importlib.util
import json
import sys
import types

import numpy as np

ROWS, ACTIONS, SLOTS = 1200, 8, 3


def load(root):
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    sys.modules["torch"] = torch
    for name in ("obp", "obp.ope"):
        package = types.ModuleType(name)
        package.__path__ = []
        sys.modules[name] = package
    for name, path in (("obp.utils", "utils.py"), ("obp.ope.estimators", "ope/estimators.py")):
        spec = importlib.util.spec_from_file_location(name, f"{root}/obp/{path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules["obp.ope.estimators"]


def model(action, reward):
    n, total = np.zeros(ACTIONS), np.zeros(ACTIONS)
    out = np.empty((ROWS, ACTIONS))
    for t in range(ROWS):
        mean = total.sum() / n.sum() if t else reward[t]
        out[t] = (total + 10 * mean) / (n + 10)
        n[action[t]] += 1
        total[action[t]] += reward[t]
    return out


def main():
    obp = load(sys.argv[1])
    rng = np.random.default_rng(20191124)
    behaviour = rng.dirichlet(np.full(ACTIONS, 2.0), size=SLOTS)
    mean = rng.uniform(0.05, 0.9, ACTIONS)
    targets = {
        "uniform": np.full((SLOTS, ACTIONS), 1 / ACTIONS),
        "other": rng.dirichlet(np.full(ACTIONS, 1.0), size=SLOTS),
        "sharp": np.tile(np.eye(ACTIONS)[int(mean.argmax())], (SLOTS, 1)),
        "logging": behaviour,
    }
    slot = rng.integers(0, SLOTS, ROWS)
    action = np.array([rng.choice(ACTIONS, p=behaviour[s]) for s in slot])
    reward = np.where(rng.uniform(size=ROWS) < 0.5, (rng.uniform(size=ROWS) < mean[action]) * 1.0,
                      np.round(np.clip(mean[action] + rng.normal(0, 0.1, ROWS), 0, 1), 6))
    pscore = behaviour[slot, action]
    q = model(action, reward)
    vectors = {}
    for name, by_slot in targets.items():
        args = dict(reward=reward, action=action, pscore=pscore, position=slot,
                    action_dist=np.tile(by_slot.T, (ROWS, 1, 1)))
        vectors[name] = {
            "ips": obp.InverseProbabilityWeighting().estimate_policy_value(**args),
            "snips": obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**args),
            "dr": obp.DoublyRobust().estimate_policy_value(
                **args, estimated_rewards_by_reg_model=np.repeat(q[:, :, None], SLOTS, axis=2)),
        }
        # The effective sample size is of no class of theirs.
        weight = by_slot[slot, action] / pscore
        vectors[name]["effective_samples"] = weight.sum() ** 2 / (weight ** 2).sum()
    names = [str(a) for a in range(ACTIONS)]
    with open("flat.jsonl", "w") as out:
        listed = {name: {str(s): list(by_slot[s]) for s in range(SLOTS)}
                  for name, by_slot in targets.items() if name in ("other", "sharp")}
        print(json.dumps({"flat": 1, "candidates": names, "targets": listed}), file=out)
        for t in range(ROWS):
            row = {"time": f"2019-11-24T{t // 60 % 24:02d}:{t % 60:02d}:00Z", "action": names[action[t]], "slot": str(slot[t]),
                   "propensity": float(pscore[t]), "payoff": float(reward[t])}
            if t % 2 == 0:
                row["propensities"] = [float(p) for p in behaviour[slot[t]]]
            print(json.dumps(row), file=out)
    with open("vectors.json", "w") as out:
        json.dump(vectors, out, indent=1)
        print(file=out)


main()
