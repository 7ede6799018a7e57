"""`python -m ramet.deploy.supervise SCRIPT` runs a script and restarts it whenever it ends.

What systemd and Docker do in production; imports only the standard library, to stay small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

PAUSE = 5.0


def main() -> None:
    while True:
        program = subprocess.Popen(["/bin/sh", sys.argv[1]], process_group=0)
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        os.killpg(program.pid, signal.SIGKILL)  # its children, such as nginx's workers on its port
        status = program.wait()
        sys.stderr.write(f"ended with status {status}; restarting in {PAUSE:.0f} s\n")
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
