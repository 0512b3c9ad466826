"""`make bench`: all benchmarks one after another; each prints ratios within its own run."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("gateway.py", "pool.py", "replay.py", "observe.py")

for script in SCRIPTS:
    if (HERE / script).exists():
        print(f"\n== {script}", flush=True)
        subprocess.run([sys.executable, str(HERE / script), *sys.argv[1:]], check=True, cwd=HERE.parent)
