"""`python -m pymlgo.corpus.worker`: does for its parent what comes in on stdin, pickled, and answers on stdout.

A program of its own rather than `multiprocessing`: that would run the main script of whoever calls us again.
"""

from __future__ import annotations

import pickle
import signal
import sys

from pymlgo.errors import MLGOError


def main() -> None:
    """Answer each (work, items) with the list of `work(item)`, or with the error that it raised, until stdin ends."""
    # Ctrl-C goes to the whole group; the parent decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            work, items = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: object = [work(item) for item in items]
        except MLGOError as error:
            answer = error
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
