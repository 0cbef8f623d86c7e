"""`python -m benchmarks`: everything that is measured, one after the other."""

from __future__ import annotations

from benchmarks import listing, recovery, workers

workers.main()
listing.main()
recovery.main()
