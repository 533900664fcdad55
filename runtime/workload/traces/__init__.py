"""Recorded traces as workloads.

Whatever is wrong with a file - missing, empty, no JSON, a value of a wrong type or out of range, lengths
that contradict each other - is raised as `runtime.errors.TraceError`, whose message is one line with
file, line number and value.
"""

from runtime.workload.traces.options import TraceOptions
from runtime.workload.traces.registry import TRACE_FORMATS, load_trace
from runtime.workload.traces.templated import ChatCodec, CodecTokenizer
from runtime.workload.traces.tokenizers import ByteTokenizer, HuggingFaceTokenizer, Tokenizer

__all__ = [
    "TRACE_FORMATS",
    "ByteTokenizer",
    "ChatCodec",
    "CodecTokenizer",
    "HuggingFaceTokenizer",
    "Tokenizer",
    "TraceOptions",
    "load_trace",
]
