"""scheduler: decides which tokens of which requests are computed next."""

from scheduler.config import SchedulerConfig
from scheduler.errors import (
    DeadlineMissed,
    Interrupted,
    InvalidRequest,
    PlanError,
    PoolOutgrown,
    QueueFull,
    ReentrantCall,
    RequestTooLong,
    Stalled,
    WrongThread,
)
from scheduler.observer import SchedulerObserver
from scheduler.plan import Row, StepPlan
from scheduler.policies import QUEUE_POLICIES, PolicyOptions, QueuePolicy
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.scheduler import Scheduler

__all__ = [
    "QUEUE_POLICIES",
    "DeadlineMissed",
    "Interrupted",
    "InvalidRequest",
    "PlanError",
    "PolicyOptions",
    "PoolOutgrown",
    "PreemptReason",
    "QueueFull",
    "QueuePolicy",
    "ReentrantCall",
    "Request",
    "RequestState",
    "RequestTooLong",
    "Row",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerObserver",
    "Stalled",
    "StepPlan",
    "WrongThread",
]
