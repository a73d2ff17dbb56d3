"""The training log: LLVM's format for features, decisions and outcomes; writer and zero-copy reader.

The format assumes one host: writer and reader share the byte order.
"""

from pymlgo.training_log.contexts import LogContext, Segment, TrainingLog
from pymlgo.training_log.header import Header
from pymlgo.training_log.reader import read_log
from pymlgo.training_log.stream import ContextEvent, LogEvent, LogParser, ObservationEvent, OutcomeEvent, stream_log
from pymlgo.training_log.writer import LogWriter

__all__ = [
    "ContextEvent",
    "Header",
    "LogContext",
    "LogEvent",
    "LogParser",
    "LogWriter",
    "ObservationEvent",
    "OutcomeEvent",
    "Segment",
    "TrainingLog",
    "read_log",
    "stream_log",
]
