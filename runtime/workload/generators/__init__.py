"""Seeded workload generators, one file each, in one dictionary."""

from collections.abc import Mapping
from typing import Final

from radixcache.errors import UnknownName
from runtime.workload.generators.agents import Agents, SubAgents
from runtime.workload.generators.base import Generator
from runtime.workload.generators.chat import Chat
from runtime.workload.generators.few_shot import FewShot
from runtime.workload.generators.rag import Rag
from runtime.workload.generators.tree_of_thought import TreeOfThought

GENERATORS: Final[Mapping[str, type[Generator]]] = {
    "chat": Chat,
    "agents": Agents,
    "rag": Rag,
    "few-shot": FewShot,
    "tree-of-thought": TreeOfThought,
}


def find_generator(name: str) -> type[Generator]:
    """The generator of that name; its keyword arguments are its settings.

    Raises:
        UnknownName: None has it; the message offers the nearest names.
    """
    if name not in GENERATORS:
        raise UnknownName("workload", name, GENERATORS)
    return GENERATORS[name]


__all__ = [
    "GENERATORS",
    "Agents",
    "Chat",
    "FewShot",
    "Generator",
    "Rag",
    "SubAgents",
    "TreeOfThought",
    "find_generator",
]
