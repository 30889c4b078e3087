"""The verbs of the command as functions."""
# pylint: disable=redefined-builtin  # `set` has the name of the command's flag.
import os
import re
import sys
import tempfile
from contextlib import ExitStack, closing

from tethys.arrays import write_data
from tethys.directory import NewDirectory
from tethys.errors import BadJob, Interrupted, RunFailed
from tethys.job import Job, JobWords, set_words
from tethys.program import flag_words, output_of, run_command
from tethys.progress import Follower
from tethys.results import Advice, Comparison, Plan
from tethys.run import Run

CONSISTENCIES = {"ps_sync": "bulk_synchronous", "ps_async": "asynchronous", "ps_stale": "stale_synchronous"}


def changes_of(workers, servers, strategy, epochs):
    """The changes of a job for the arguments that have names of their own."""
    changes = {}
    servers_of = re.fullmatch(r"(ps_sync|ps_async|ps_stale)(?:_(\d+))?", strategy or "")
    if servers_of:
        changes["strategy"] = "parameter_server"
        changes["strategy.parameter_server.consistency"] = CONSISTENCIES[servers_of[1]]
        if servers_of[2]:
            changes["strategy.parameter_server.stale_synchronous.bound"] = servers_of[2]
    elif strategy is not None:
        changes["strategy"] = strategy
    given = {"workers": workers, "strategy.parameter_server.servers": servers, "epochs": epochs}
    return {**changes, **{field: value for field, value in given.items() if value is not None}}


def printer(quiet):
    """Prints lines unless `quiet`. None: prints where a person reads, on a terminal and in a notebook."""
    if quiet is None:
        quiet = not sys.stdout.isatty() and "ipykernel" not in sys.modules
    return None if quiet else lambda line: print(line, flush=True)


def train(job, *, data=None, test=None, workers=None, servers=None, strategy=None, epochs=None, set=None,
          run_dir=None, hostfile=None, resume=False, on_event=None, quiet=None, **flags):
    """Trains a job to its end and returns its Run.

    job: a path, a text, a dict or a Job; None with `resume`, which goes on with the run in `run_dir`.
    data, test: (values, labels), in place of the job's data: anything with __array__ or __dlpack__, or an iterable of
        such pairs. They are written into the run directory.
    workers, servers, epochs: fields of the job. strategy: local, mirrored, ps_sync, ps_async, or ps_stale_3 (bound 3).
    set: changes of other fields, such as {"optimizer.learning_rate": 0.1}.
    run_dir: default: a new runs/NAME-DATE-TIME.
    hostfile: the machines, one per line; without it, this machine.
    on_event: called with each event of the run, a dict. If it raises, the run saves a checkpoint and ends.
    quiet: True prints nothing, False prints the command's lines; default: prints on terminals and in notebooks.
    flags: further flags of `tethys train`, such as tls=True.

    BadJob: the request was wrong, nothing was started. RunFailed: the run failed. Interrupted, a KeyboardInterrupt:
    the run was interrupted and has saved a checkpoint.
    """
    if resume and run_dir is None:
        raise BadJob("resume needs run_dir, the directory of the run to go on with", "run_dir")
    if resume and data is not None:
        raise BadJob("a run goes on with the data that it began with: leave data out", "data")
    job = None if resume else Job.of(job)
    with ExitStack() as stack:
        directory = stack.enter_context(NewDirectory(job.name if job else "", run_dir))
        changes = {**(job.changes if job else {}), **directory.write(data, test, hostfile),
                   **changes_of(workers, servers, strategy, epochs), **(set or {})}
        jobs = stack.enter_context(JobWords([job] if job else []))
        follower = stack.enter_context(closing(Follower(directory.path, on_event))) if on_event else None
        flags = {"run_dir": directory.path, "hostfile": hostfile, "resume": resume, **flags}
        ended = run_command("train", [*set_words(changes), *flag_words(flags), *jobs.words], jobs.files,
                            printer(quiet), follower.look if follower else None)
        if ended.status == 2:
            raise jobs.bad_job(ended.message())
        run = None
        if (directory.path / "job.textproto").exists():
            directory.keep()
            run = Run(directory.path)
    if isinstance(ended.interruption, KeyboardInterrupt):
        raise Interrupted(run)
    if ended.interruption is not None:
        raise ended.interruption
    if ended.status != 0:
        raise RunFailed(ended.message(), run)
    if ended.errors and printer(quiet):
        sys.stderr.write(ended.errors)
    return run


def compare(jobs, *, data=None, test=None, vary=None, repeats=None, strategies=None, target_accuracy=None, set=None,
            run_dir=None, hostfile=None, quiet=None, **flags):
    """Trains several jobs, or one job in several ways, and returns a Comparison.

    jobs: a job, or a list of jobs. vary: {field: list of values}. strategies: "all", or a list of strategies.
    Other arguments are those of `train` and the flags of `tethys compare`. RunFailed: a run failed.
    """
    jobs = [Job.of(job) for job in (jobs if isinstance(jobs, (list, tuple)) else [jobs])]
    changes = dict(jobs[0].changes) if jobs else {}
    if any(job.changes != changes for job in jobs):
        raise ValueError("flags change all jobs of a comparison alike: give all jobs the same changes")
    with ExitStack() as stack:
        directory = stack.enter_context(NewDirectory("compare", run_dir))
        changes.update({**directory.write(data, test, hostfile), **(set or {})})
        words = stack.enter_context(JobWords(jobs))
        if isinstance(strategies, (list, tuple)):
            strategies = ",".join(strategies)
        flags = {"run_dir": directory.path, "hostfile": hostfile, "repeats": repeats, "strategies": strategies,
                 "vary": [f"{field}={','.join(map(str, values))}" for field, values in (vary or {}).items()],
                 "target_accuracy": target_accuracy, **flags}
        ended = run_command("compare", [*set_words(changes), *flag_words(flags), *words.words], words.files,
                            printer(quiet))
        if ended.status == 2:
            raise words.bad_job(ended.message())
        directory.keep()
    if ended.interruption is not None:
        raise ended.interruption
    if ended.status != 0:
        raise RunFailed(ended.message())
    return Comparison(directory.path, ended.output)


def plan(job, *, data=None, test=None, workers=None, servers=None, strategy=None, epochs=None, set=None,
         hostfile=None, **flags):
    """Says what a job would be, and starts nothing. The arguments are those of `train` and the flags of `tethys
    plan`."""
    job = Job.of(job)
    with tempfile.TemporaryDirectory(prefix="tethys-") as folder, JobWords([job]) as words:
        changes = {**job.changes, **write_data(f"{folder}/data", data, test, from_chief=hostfile is not None),
                   **changes_of(workers, servers, strategy, epochs), **(set or {})}
        flags = {"hostfile": hostfile, **flags}
        return Plan(output_of(run_command("plan", [*set_words(changes), *flag_words(flags), *words.words], words.files),
                              words.bad_job))


def advise(job, *, data=None, test=None, set=None, hostfile=None, quiet=None, **flags):
    """Says which strategy and how many processes suit a job. The arguments are those of `train` and the flags of
    `tethys advise`."""
    job = Job.of(job)
    with NewDirectory(f"advise-{job.name}", None) as directory, JobWords([job]) as words:
        best = directory.path / "job.textproto"
        changes = {**job.changes, **directory.write(data, test, hostfile), **(set or {})}
        flags = {"hostfile": hostfile, "out": best, **flags}
        text = output_of(run_command("advise", [*set_words(changes), *flag_words(flags), *words.words], words.files,
                                     printer(quiet)), words.bad_job)
        directory.keep()
    own_hosts = best.with_suffix(".hosts")
    return Advice(text, Job(best), own_hosts if own_hosts.exists() else hostfile)


def init(folder, out="job.textproto", **flags):
    """Writes a job for the data in a folder (`tethys init`) to the file `out`; returns the Job."""
    output_of(run_command("init", [*flag_words({"out": out, **flags}), "--", os.fspath(folder)]))
    return Job(out)
