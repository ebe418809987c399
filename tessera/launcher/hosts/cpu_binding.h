#pragma once

#include <string>
#include <vector>

namespace tessera {

/// The cores that this process may use, ascending.
std::vector<int> allowed_cpus();

/// `--bind_core`: the cores of each of `workers` local workers; empty lists: not bound.
///  - "False": none. "True": `cpus` cut into equal runs (one core for each worker when there are
///    fewer cores than workers, in turn).
///  - a dictionary {"device0": ["0-10"], "device1": ["11-20", "25"]}: worker i gets device i's.
/// Throws ConfigError for anything else, for a core that is not in `cpus` and for a worker without
/// an entry.
std::vector<std::vector<int>> bind_cores(const std::string& option, int workers,
                                         const std::vector<int>& cpus);

}  // namespace tessera
