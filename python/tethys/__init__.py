"""Trains neural networks with Tethys: on this machine or several, by mirrored workers or parameter servers.

    import tethys
    run = tethys.train("job.textproto", data=(x, y), workers=2, strategy="mirrored")
    run.summary["train"]["accuracy"], run.epochs(), run.weights(), run.predict(x)

The package drives the command `tethys`, which a wheel contains (tethys/_bundle). It needs numpy; pandas and matplotlib
are used if they are installed. docs/guide/python.md is its manual.
"""
from tethys.errors import BadJob, Interrupted, RunFailed
from tethys.job import Job
from tethys.program import program
from tethys.results import Advice, Comparison, Plan
from tethys.run import Run, runs
from tethys.verbs import advise, compare, init, plan, train

__all__ = ["Advice", "BadJob", "Comparison", "Interrupted", "Job", "Plan", "Run", "RunFailed", "advise", "compare",
           "init", "plan", "program", "runs", "train"]
