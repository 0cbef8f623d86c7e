"""The errors of the processors, named by what the caller does next.

- ProcessorError
  - Restart: what was committed is unknown; throw producer and memory away and start again from the fence
  - Stop: this worker cannot go on; end the process with the reason, exit status 1
    - Fenced: another worker has taken the partition over
    - Stalled: the state topic does not get read to its end
    - Stuck: attempts are used up, or there is work and none gets done

Calls that may be repeated as they are get repeated inside `processors.kafka`, within a deadline. Wrong configuration
and servers that do not answer at the start are `kubecdc.errors.Misconfigured` and `Unreachable`.
"""

from __future__ import annotations


class ProcessorError(Exception):
    """Base of all errors that the processors raise on purpose."""


class Restart(ProcessorError):  # noqa: N818 - named by what to do, as the tree above shows
    """Anything ambiguous: whether the transaction was committed shows only after a new fence."""


class Stop(ProcessorError):  # noqa: N818 - as above
    """Going on would skip something or repeat for ever."""


class Fenced(Stop):
    """A newer producer of the same partition exists: this one is a zombie."""


class Stalled(Stop):
    """Recovery made no progress within its deadline."""


class Stuck(Stop):
    """No progress in spite of all attempts."""
