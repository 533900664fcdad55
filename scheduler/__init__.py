"""scheduler: decides which tokens of which requests are computed next."""

from scheduler.config import SchedulerConfig
from scheduler.errors import DeadlineMissed, PlanError, PoolOutgrown, QueueFull, RequestTooLong, Stalled
from scheduler.observer import SchedulerObserver
from scheduler.plan import Row, StepPlan
from scheduler.policies import QUEUE_POLICIES, PolicyOptions, QueuePolicy
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.scheduler import Scheduler

__all__ = [
    "QUEUE_POLICIES",
    "DeadlineMissed",
    "PlanError",
    "PolicyOptions",
    "PoolOutgrown",
    "PreemptReason",
    "QueueFull",
    "QueuePolicy",
    "Request",
    "RequestState",
    "RequestTooLong",
    "Row",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerObserver",
    "Stalled",
    "StepPlan",
]
