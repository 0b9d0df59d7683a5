// What the code of torch.compile includes: that this file can be compiled shows that it can be, too.

#include <Python.h>
#include <omp.h>

#include <vector>

extern "C" int probe() { return static_cast<int>(std::vector<int>{PY_MAJOR_VERSION, omp_get_max_threads()}.size()); }
