"""A program that waits for itself, and has started another that outlives a signal to its group."""

import os
import subprocess
import sys
import threading
from pathlib import Path


def make_setup():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    Path(__file__).with_suffix(".pids").write_text(f"{os.getpid()} {other.pid}")
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
