"""The generators at sizes that a model of a few hundred million parameters serves on a CPU in about a minute.

The shapes are those of the full sizes: shared system prompts, growing conversations, unequal popularity.
"""

from collections.abc import Mapping
from typing import Final

from runtime.workload.arrivals import Poisson
from runtime.workload.draws import Lengths
from runtime.workload.generators.agents import Agents, SubAgents
from runtime.workload.generators.base import Generator
from runtime.workload.generators.chat import Chat
from runtime.workload.generators.few_shot import FewShot
from runtime.workload.generators.rag import Rag
from runtime.workload.generators.tree_of_thought import TreeOfThought

_MAX_CONTEXT: Final = 2048

SMALL_GENERATORS: Final[Mapping[str, Generator]] = {
    "chat": Chat(
        num_sessions=5,
        arrivals=Poisson(rate_per_s=0.2),
        num_system_prompts=2,
        system_len=Lengths(median=300, sigma=0.3, low=64, high=768),
        mean_turns=4.0,
        user_len=Lengths(median=30, sigma=0.6, low=4, high=128),
        output_len=Lengths(median=12, sigma=0.4, low=4, high=32),
        max_context=_MAX_CONTEXT,
    ),
    "agents": Agents(
        num_sessions=2,
        arrivals=Poisson(rate_per_s=0.1),
        num_agents=1,
        prefix_len=Lengths(median=500, sigma=0.2, low=64, high=1024),
        task_len=Lengths(median=50, sigma=0.5, low=8, high=128),
        mean_steps=6.0,
        action_len=Lengths(median=10, sigma=0.4, low=4, high=32),
        result_len=Lengths(median=50, sigma=0.8, low=4, high=256),
        sub_agents=SubAgents(
            prefix_len=Lengths(median=300, sigma=0.2, low=64, high=512),
            brief_len=Lengths(median=40, sigma=0.5, low=8, high=128),
            mean_steps=2.0,
        ),
        max_context=_MAX_CONTEXT,
    ),
    "rag": Rag(
        num_sessions=12,
        arrivals=Poisson(rate_per_s=0.2),
        num_documents=6,
        documents_per_prompt=2,
        document_len=Lengths(median=250, sigma=0.3, low=32, high=512),
        instruction_len=Lengths(median=80, sigma=0.2, low=8, high=256),
        question_len=Lengths(median=20, sigma=0.5, low=4, high=64),
        output_len=Lengths(median=10, sigma=0.4, low=4, high=32),
    ),
    "few-shot": FewShot(
        num_questions=16,
        num_tasks=3,
        num_shots=6,
        example_len=Lengths(median=70, sigma=0.3, low=8, high=160),
        question_len=Lengths(median=40, sigma=0.4, low=4, high=128),
        output_len=Lengths(median=8, sigma=0.4, low=1, high=24),
    ),
    "tree-of-thought": TreeOfThought(
        num_sessions=1,
        depth=2,
        branching=3,
        instruction_len=Lengths(median=300, sigma=0.2, low=8, high=768),
        problem_len=Lengths(median=50, sigma=0.4, low=4, high=128),
        thought_len=Lengths(median=16, sigma=0.4, low=4, high=32),
        judge_len=Lengths(median=20, sigma=0.2, low=4, high=64),
        verdict_len=Lengths(median=4, sigma=0.3, low=1, high=8),
    ),
}
"""Name in `GENERATORS` -> the small one."""
