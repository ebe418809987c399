#pragma once

#include <string>
#include <vector>

namespace tessera {

/// msrun, also `tessera launch`: checks the run once, then starts this node's workers (processes of
/// tessera-engine) and, with --join=True, waits for them. `prefix` is what comes before the flags
/// when the program starts itself again to watch workers it was told not to wait for ("launch").
/// Returns the exit code. Throws Error for what prevents a start.
int run_msrun(const std::vector<std::string>& arguments, const std::string& program,
              const std::vector<std::string>& prefix);

}  // namespace tessera
