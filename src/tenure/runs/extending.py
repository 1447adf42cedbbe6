"""How does a controller buy more of a window, without waiting and without a person where none is needed?

Whoever started the run has signed for extensions within its budget; above the set sum a second person signs
(`tenure run approve`), and until then the answer is `waiting`. Ask `pursue` at every poll: it buys what has
been signed meanwhile, and reads what became of purchases whose answer was lost.
"""

from __future__ import annotations

from decimal import Decimal

from tenure.engines.clock import Clock
from tenure.providers.protocol import Offer, Provider, ProviderError, Refused, Window
from tenure.runs.buying import buy, intents, look_again, outcome_of
from tenure.runs.parts import Bought
from tenure.runs.signing import (
    EXTENSION,
    PLANNED,
    BuyingError,
    Changed,
    NotAllowed,
    NotSigned,
    Plan,
    Rules,
    plan_of,
    sign,
    signers,
)
from tenure.runs.words import Book

BOUGHT, WAITING, REFUSED = "bought", "waiting", "refused"


class Extender:
    """Buys extensions for one run. `person`: who started it; `budget`: of all its purchases."""

    def __init__(
        self,
        book: Book,
        provider: Provider,
        rules: Rules,
        clock: Clock,
        *,
        nodes: int,
        budget: Decimal,
        person: str,
    ) -> None:
        self._book, self._provider, self._clock = book, provider, clock
        self._rules = rules._replace(waits=False)
        self._nodes, self._budget, self._person = nodes, budget, person

    def __call__(self, window: Window, offer: Offer) -> Bought:
        """Sign for it and buy it, if that is enough."""
        plan = Plan(self._book.run, offer, self._budget, self._nodes)
        now = self._clock.now()
        try:
            against = self._provider.against(offer)
            return self._buy(sign(self._book, plan, self._person, self._rules, now, against))
        except (NotAllowed, Refused) as no:
            return Bought(REFUSED, str(no))
        except ProviderError as silent:
            return Bought(WAITING, str(silent))

    def pursue(self) -> list[Bought]:
        """What has come of extensions that waited; those still waiting are left out."""
        found = []
        try:
            look_again(self._book, self._provider, self._rules)
        except (ProviderError, BuyingError) as no:
            found.append(Bought(WAITING, str(no)))
        for event in self._book.events(PLANNED):
            plan = plan_of(event)
            if plan.kind != EXTENSION or not self._open(plan):
                continue
            told = self._buy(plan.id)
            if told.state != WAITING:
                found.append(told)
        return found

    def _open(self, plan: Plan) -> bool:
        """Whether something may yet come of it: signed for, its window not over, and not decided."""
        tried = intents(self._book, plan.id)
        if tried and outcome_of(self._book, tried[-1].body["intent"]) is not None:
            return False
        if tried:
            return True
        in_time = self._clock.now() < plan.offer.start
        return in_time and len(signers(self._book, plan.id, self._rules)) > 1

    def _buy(self, plan_id: str) -> Bought:
        try:
            bought = buy(self._book, self._provider, plan_id, self._rules, self._clock)
        except NotSigned as no:
            return Bought(WAITING, f"{no}: plan {plan_id}")
        except (NotAllowed, Changed, Refused) as no:
            return Bought(REFUSED, str(no))
        except (BuyingError, ProviderError) as unknown:
            return Bought(WAITING, str(unknown))
        return Bought(BOUGHT, f"{bought.window} until {bought.end:.0f}, plan {plan_id}")
