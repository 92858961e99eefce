"""The sweep as the worker does it, step by step until there is no more to do, in the real registry and in the
model.
"""

from functools import partial

from long.machine.real import OPERATOR, Real
from long.machine.time_model import Registry
from sublet.db import Tx
from sublet.subdomains.sweep.brake import resume_sweep
from sublet.subdomains.sweep.sweep import sweep

_ATTEMPTS = """
    SELECT subdomain_id, kind FROM milestones
    WHERE kind IN ('auto_renewed', 'auto_renew_failed') ORDER BY id LIMIT -1 OFFSET ?
"""


def sweep_all(real: Real, model: Registry) -> list[str]:
    """Sweep; if the sweep stops, the operator resumes it. Return the outcomes."""
    tries = model.tries()
    swept = real.write(sweep)
    stops = model.sweep_stops()
    assert (swept.stopped_reason is not None) == stops, (swept, model.swept_at, model.now)
    assert not swept.faults, swept.faults
    met = ["stopped"] if stops else []
    while swept.more or swept.stopped_reason is not None:
        if swept.stopped_reason is not None:
            real.write(partial(resume_sweep, actor=OPERATOR))
        swept = real.write(sweep)
        assert not swept.faults, swept.faults

    def ask(tx: Tx) -> list[tuple[int, str]]:
        found = tx.connection.exec_driver_sql(_ATTEMPTS, (real.attempts,))
        return [(row[0], row[1]) for row in found]

    attempts = real.read(ask)
    real.attempts += len(attempts)
    assert {number for number, _ in attempts} == tries, (attempts, tries)
    assert len(attempts) == len(tries)
    removed = model.audit["subdomain.remove_nameservers"]
    lost = {each.id for each in model.names if each.trashed_at}
    came = model.sweep([number for number, _ in attempts])
    assert came == [kind for _, kind in attempts], (came, attempts)
    met += came
    met += ["removed"] if model.audit["subdomain.remove_nameservers"] > removed else []
    met += ["took"] if {each.id for each in model.names if each.trashed_at} > lost else []
    return [*met, "(done)"]
