"""Recording live traffic as a trace that the simulator can replay."""

from runtime.recording.recorder import OpenRequest, RecordingFailed, TraceRecorder

__all__ = ["OpenRequest", "RecordingFailed", "TraceRecorder"]
