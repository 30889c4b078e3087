#!/usr/bin/env python3
"""Checks in a run's journal, independently of the checker in C++, that every sample was used once in every epoch.

    check_journal.py RUN_DIR/journal ...

For each position in the order of samples, counts how often workers used the sample and how often each server applied
its gradient (runtime/chief/journal.h describes the lines). A batch that only some servers applied, because its worker
was lost (torn), counts as applied by all. When a later attempt resumed from an earlier state, the steps after that
state are undone and do not count. The first position with a wrong count ends the script with an error and status 1.
"""
import collections
import sys


class Attempt:
    def __init__(self, step, epoch, position, samples, workers, servers):
        self.begin = (epoch, position)
        self.start = epoch * samples + position
        self.samples = samples
        self.workers = workers
        self.servers = servers
        self.uses = collections.defaultdict(list)  # {"workers" or a server's index: [(begin, count)]}
        self.epoch_ends = {}
        self.end = None

    def epoch_bounds(self, end):
        """The points up to `end` at which an epoch begins, and those after which an epoch that ended early is empty."""
        for epoch in range(end // self.samples + 1):
            yield epoch * self.samples
            yield epoch * self.samples + self.epoch_ends.get(epoch, self.samples)


def runs_of_equal_use(uses, start, end, bounds):
    """Yields (begin, count, times) for runs of positions in [start, end) that were used equally often. No run reaches
    across a point of `bounds`. Whole batches are counted, since a journal of an hour has many millions of samples."""
    changes = collections.Counter({start: 0, end: 0})
    changes.update({point: 0 for point in bounds if start < point < end})
    for begin, count in uses:
        changes[begin] += 1
        changes[begin + count] -= 1
    times, points = 0, sorted(changes)
    for point, following in zip(points, points[1:] + [end]):
        times += changes[point]
        if start <= point < end:
            yield point, following - point, times


def parse(text):
    attempts = []
    for line in text[:text.rfind("\n") + 1].splitlines():
        kind, *fields = line.split(" ")
        if kind == "attempt":
            attempts.append(Attempt(*map(int, fields[:6])))
        elif kind == "used":
            attempts[-1].uses["workers"].append((int(fields[2]), int(fields[3])))
        elif kind == "applied":
            attempts[-1].uses[int(fields[0])].append((int(fields[3]), int(fields[4])))
        elif kind == "torn":
            for server in set(range(attempts[-1].servers)) - set(map(int, fields[3:])):
                attempts[-1].uses[server].append((int(fields[1]), int(fields[2])))
        elif kind == "epoch":
            attempts[-1].epoch_ends[int(fields[0])] = int(fields[1])
        elif kind == "end":
            attempts[-1].end = int(fields[0]) * attempts[-1].samples + int(fields[1])
    return attempts


def check(text):
    """Returns the number of samples used; raises ValueError if a sample is missing or repeated."""
    attempts = parse(text)
    if not attempts or attempts[-1].end is None:
        raise ValueError("the job did not end well")
    total = 0
    for number, attempt in enumerate(attempts, 1):
        # The points at which later attempts begin are compared as (epoch, position), because the epochs of a
        # later attempt may have another length.
        epoch, position = min((later.begin for later in attempts[number:]), default=(0, attempt.end))
        end = epoch * attempt.samples + position
        for who in ["workers", *range(attempt.servers)]:
            bounds = attempt.epoch_bounds(end)
            for begin, count, times in runs_of_equal_use(attempt.uses[who], attempt.start, end, bounds):
                epoch, within = divmod(begin, attempt.samples)
                wanted = 1 if within < attempt.epoch_ends.get(epoch, attempt.samples) else 0
                if times != wanted:
                    raise ValueError(f"position {within} of epoch {epoch} was used {times} times, not {wanted}, by "
                                     f"{who} (workers, or the number of a server)")
                total += count * times if who == "workers" else 0
    return total


def main(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            print(f"{path}: {check(file.read())} samples, each used exactly once")


if __name__ == "__main__":
    main(sys.argv[1:])
