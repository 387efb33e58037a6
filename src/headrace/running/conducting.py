"""The conductor at work: in a thread beside the epochs, or between two runs on demand. Its trouble stops nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from headrace.catalog.events import EventBook
from headrace.engine.conductor.conductor import Conductor, ConductorInfo
from headrace.engine.conductor.house import HouseStage
from headrace.engine.conductor.memory import Memory
from headrace.engine.group import Group
from headrace.engine.groups import Groups
from headrace.engine.house import House
from headrace.engine.records import Commit
from headrace.log.arrivals import Arrivals
from headrace.model.errors import HeadraceError
from headrace.model.events import EventKind
from headrace.model.grouping import MAIN
from headrace.model.query import Needs, QueryPlan
from headrace.optimizer.grouping.policies import Policy
from headrace.optimizer.grouping.settings import Settings
from headrace.running.retries import Retry

KEEP_LOOKS = 30
"""What was learnt is written down after so many looks, and when the warehouse is closed."""

LOOK_SECONDS = 0.5
"""How often it is looked whether something is due."""

STAYS = "who shares with whom stays as it is for now"
BY_DEFAULT = "new queries start where they do without a decision for now"
"""What follows from trouble of a look, and from trouble of finding a place for new queries."""

_LOGGER = logging.getLogger(__name__)


class Conducting:
    """Runs the conductor's looks. What fails in one is told by `trouble` and by an event, and tried again later."""

    def __init__(
        self, conductor: Conductor, stage: HouseStage, events: EventBook, memory: Memory | None = None
    ) -> None:
        self._conductor, self.stage, self._events, self._memory = conductor, stage, events, memory
        self._unkept = 0
        if memory is not None and (learnt := memory.recall()) is not None:
            conductor.recall(learnt)
        self.trouble, self._placing, self._noting = Retry(), Retry(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @classmethod
    def of(
        cls, house: House, groups: Groups, arrivals: Arrivals, events: EventBook, policy: Policy | None
    ) -> Conducting:
        """The conductor of an open warehouse; without a policy it decides nothing."""
        stage = HouseStage(house, groups, arrivals)
        conductor = Conductor(stage, events, policy, clock=house.clock)
        return cls(conductor, stage, events, None if policy is None else Memory(house.warehouse))

    def info(self) -> ConductorInfo:
        return self._conductor.info()

    def use(self, settings: Settings) -> None:
        """Decide by other settings from now on."""
        self._conductor.use(settings)

    def committed(self, group: Group, commit: Commit) -> None:
        """An epoch of a group counts now. Called by the threads of the crew.

        If the group has begun to fall behind, what to do is decided now: its next epoch may be a long one, and nobody
        can leave in the middle of it.
        """
        if not self._conductor.decides:
            return
        try:
            self._conductor.measured(self.stage.measured(group, commit))
            if self.trouble.due:
                self._conductor.look(early=True)
        except Exception as error:  # the epoch counts whatever is known of it
            self._failed(self.trouble, error, STAYS)

    def balance(self, group: Group) -> None:
        """Spread a group's keys anew if one of its tasks has much more to do than the others; an event says so."""
        try:
            why = self.stage.balance(group)
            if why is not None:
                self._events.add(self.stage.now(), EventKind.BALANCED, group.name, why)
        except Exception as error:  # the epoch counts, and the next ones run as this one did
            _LOGGER.warning("the keys of group %s stay where they are: %s", group.name, error)

    def place(self, wanted: Sequence[tuple[QueryPlan, Needs]]) -> list[str | None]:
        """Where new queries start. Trouble puts them where they start by default, and is told; looks go on."""
        try:
            places = self._conductor.place(wanted)
        except Exception as error:
            self._failed(self._placing, error, BY_DEFAULT)
            return [None] * len(wanted)
        self._passed(self._placing)
        return places

    def look(self) -> None:
        """Do what is due."""
        if not (self.trouble.due and self._conductor.due):
            return
        try:
            if self._conductor.look() is None:
                return  # nothing was due, so nothing is known of what was in trouble
            self._passed(self.trouble)
            self._unkept += 1
            if self._unkept >= KEEP_LOOKS:
                self.keep()
        except Exception as error:
            self._failed(self.trouble, error, STAYS)

    def keep(self) -> None:
        """Write down what was learnt, if there is anything new."""
        if self._memory is not None and self._unkept:
            self._unkept = 0
            self._memory.keep(self._conductor.learnt())

    def _passed(self, trouble: Retry) -> None:
        with self._noting:
            trouble.passed()

    def _failed(self, trouble: Retry, error: Exception, so: str) -> None:
        """Note trouble, and tell the first one of several in a row, and what follows from it. From any thread."""
        with self._noting:
            new, ours = trouble.error is None, trouble.failed(error)
        if new:
            text = ours.message if ours.detail is None else f"{ours.message}; {ours.detail}"
            _LOGGER.warning("%s: %s", so, text, exc_info=error)
            try:
                self._events.add(trouble.since, EventKind.ERROR, MAIN, text)
            except HeadraceError as other:  # a full disk, say: `trouble` still tells the first error
                _LOGGER.warning("the event could not be kept: %s", other)

    def start(self, interval_s: float) -> None:
        """Look on in a thread of its own, while an epoch is sealed every so many seconds."""
        self._conductor.interval_s = interval_s
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="headrace-conductor", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            self.look()

    def stop(self) -> None:
        """Stop looking; a look that is under way comes to its end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
