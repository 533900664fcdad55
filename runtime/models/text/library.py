"""The `tokenizers` library, imported when it is needed."""

from types import ModuleType

from runtime.models.errors import MissingPackage


def tokenizers_library() -> ModuleType:
    """The module.

    Raises:
        MissingPackage: It is not installed.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise MissingPackage("tokenizers", "reading a model's tokenizer") from error
    return tokenizers
