"""Random configurations under real Terraform and real Ansible, against a real service: what was applied needs
no change.
"""

import random
from concurrent.futures import ThreadPoolExecutor

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from support.ansible import Ansible
from support.configurations import DOMAIN, check_ansible, check_terraform, draw_configuration
from support.running_service import running_service
from support.terraform import Terraform

TOGETHER = 10
"""The configurations of one run of a program, so that its start isn't what takes the time."""


def _run(trial: Trial, program: str) -> Outcome:
    """Run a program for the configurations, ten at a time, as often at once as the
    machine may use processes.
    """
    with registry_on(trial) as url, running_service(url, organizations_per_user=TOGETHER) as service:
        service.add_domain(DOMAIN)

        def check(first: int) -> None:
            # A user of each run, because a user has at most 100 tokens, and starts 50 transfers a day.
            who = service.add_user(f"ada{first}@example.org", credit_count=1000, free_quota="100")
            folder = trial.folder / f"{program}-{first}"
            folder.mkdir()
            # Each run has a seed of its own, so that it draws the same whatever runs beside it.
            rng = random.Random(f"{trial.seed}/{first}")  # noqa: S311 - not for secrets
            numbers = range(first, min(first + TOGETHER, trial.count))
            drawn = [draw_configuration(rng, each) for each in numbers]
            if program == "terraform":
                check_terraform(Terraform(folder, service.base_url, who.token), drawn, rng)
            else:
                check_ansible(Ansible(folder, service.base_url, who.token), drawn, rng)

        with ThreadPoolExecutor(trial.workers) as pool:
            for _ in pool.map(check, range(0, trial.count, TOGETHER)):
                pass
    return Outcome(f"{trial.count:,} configurations, no change in the second run")


TERRAFORM = Scenario(
    "terraform",
    "Random names, tokens, offers, organizations with a member, and automatic DS, in random spellings. The "
    "plan is empty after they are applied, and after all are imported into an empty state. Counts "
    "configurations.",
    lambda trial: _run(trial, "terraform"),
    {SOAK: {SQLITE: 300}},
)
ANSIBLE = Scenario(
    "ansible",
    "Random names and tokens in random spellings, then some of them changed or absent. Check mode tells "
    "the changes of the real run, and the second run has none. Counts configurations.",
    lambda trial: _run(trial, "ansible"),
    {SOAK: {SQLITE: 300}},
)
