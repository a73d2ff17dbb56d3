"""One compile under a policy or overrides is a job; backends run it, executors run many."""
