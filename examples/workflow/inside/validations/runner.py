"""Stands for a runner of simulations on other machines: what was started there cannot be rolled back.

It starts a name once, as most runners do. Every start is a line in a file, so that tests can count.
"""
from django.conf import settings


def submit(name, model):
    """The runner's own id of the job."""
    jobs = settings.RUNNER / "runner-jobs"
    jobs.mkdir(exist_ok=True)
    try:
        with open(jobs / name, "x") as job:
            job.write(model)
        with open(settings.RUNNER / "runner-started", "a") as started:
            started.write(f"{name}\n")
    except FileExistsError:
        pass
    return f"sim-{name[:8]}"
