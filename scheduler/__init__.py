"""scheduler: decides which tokens of which requests are computed next."""

from scheduler.config import SchedulerConfig
from scheduler.errors import PlanError, PoolOutgrown, RequestTooLong, Stalled
from scheduler.plan import Row, StepPlan
from scheduler.queue_policy import QUEUE_POLICIES, QueuePolicy
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.scheduler import Scheduler

__all__ = [
    "QUEUE_POLICIES",
    "PlanError",
    "PoolOutgrown",
    "PreemptReason",
    "QueuePolicy",
    "Request",
    "RequestState",
    "RequestTooLong",
    "Row",
    "Scheduler",
    "SchedulerConfig",
    "Stalled",
    "StepPlan",
]
