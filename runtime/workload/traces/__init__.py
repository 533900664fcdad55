"""Recorded traces as workloads.

Whatever is wrong with a file - missing, empty, no JSON, a value of a wrong type or out of range, lengths
that contradict each other - is raised as `runtime.errors.TraceError`, whose message is one line with
file, line number and value.
"""

from runtime.workload.traces.options import TraceOptions
from runtime.workload.traces.registry import CHAT_MESSAGES, TRACE_FORMATS, load_trace, sniff_format
from runtime.workload.traces.templated import ChatCodec, CodecTokenizer
from runtime.workload.traces.tokenizers import ByteTokenizer, HuggingFaceTokenizer, Tokenizer

__all__ = [
    "CHAT_MESSAGES",
    "TRACE_FORMATS",
    "ByteTokenizer",
    "ChatCodec",
    "CodecTokenizer",
    "HuggingFaceTokenizer",
    "Tokenizer",
    "TraceOptions",
    "load_trace",
    "sniff_format",
]
