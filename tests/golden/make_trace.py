"""Writes `trace.jsonl`: shared system prompts, conversations that go on, repetitions and one-time prompts.

python tests/golden/make_trace.py
"""

import json
import random
from pathlib import Path
from typing import Any

NUM_REQUESTS = 72


def make() -> list[dict[str, Any]]:
    """The requests in order of their steps."""
    rng = random.Random(20)
    systems = [[10_000 * number, length] for number, length in ((1, 40), (2, 75), (3, 100), (4, 23))]
    conversations: list[list[list[int]]] = []
    lines: list[dict[str, Any]] = []
    step, fresh = 0, 100_000
    for _ in range(NUM_REQUESTS):
        chance = rng.random()
        output_len = rng.choice([1, 2, 3, 5, rng.randrange(20, 90)])
        if chance < 0.2 and lines:
            prompt, output_len = rng.choice(lines[-30:])["prompt"], 1
        elif chance < 0.5 and conversations:
            prompt = rng.choice(conversations[-8:])
        elif chance < 0.85:
            prompt = [rng.choice(systems)]
            conversations.append(prompt)
        else:
            prompt = []
        if chance >= 0.2:
            length = rng.randrange(3, 40)
            prompt.append([fresh, length])
            fresh += length
        priority = int(bool(prompt) and prompt[0] == systems[1])
        runs = [list(run) for run in prompt]
        lines.append({"step": step, "prompt": runs, "output": output_len, "priority": priority})
        step += rng.choice([0, 0, 1, 3, 6])
    return lines


if __name__ == "__main__":
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in make())
    (Path(__file__).parent / "trace.jsonl").write_text(text)
