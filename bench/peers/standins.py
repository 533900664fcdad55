"""Empty stand-ins for GPU and model packages that the peers import and their caches never use."""

import importlib
import sys
from collections.abc import Collection, MutableSequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import MagicMock


class StandIn(ModuleType):
    """A module that has every attribute and does nothing."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - what makes it a package

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock()
        value.__name__ = name
        setattr(self, name, value)
        return value


class StandInFinder(MetaPathFinder, Loader):
    """Finds a stand-in for each given module and all below it."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A package for what is stood in for, nothing for anything else."""
        parents = [fullname[:at] for at, letter in enumerate(fullname + ".") if letter == "."]
        wanted = any(parent in self._names for parent in parents)
        return ModuleSpec(fullname, self, is_package=True) if wanted else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


@cache
def stand_in_for(names: tuple[str, ...]) -> None:
    """Put stand-ins in place, after torch and transformers have seen that the real packages are absent."""
    for module in ("torch._dynamo", "torch._inductor.lowering", "transformers.models.llama.modeling_llama"):
        importlib.import_module(module)
    sys.meta_path.insert(0, StandInFinder(names))
