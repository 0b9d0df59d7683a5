import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import torch
from supple.engine.machine.allocator import keep_freed_memory

torch.set_num_threads(1)
assert keep_freed_memory()

def update():
    for gradient in [torch.empty(350_000) for _ in range(4)]:
        gradient.zero_()

for _ in range(3):
    update()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    update()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_an_update_that_frees_megabytes_does_not_get_new_pages_each_time() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 200  # of 1,368 pages
