#pragma once

#include <string>

#include "tessera/base/timeline.h"
#include "tessera/comm/process_group.h"

namespace tessera {

/// Throws ConfigError when `path` cannot be written.
void check_trace_file(const std::string& path);

/// Writes the timelines of all ranks in Chrome's trace format (chrome://tracing, Perfetto): one row
/// per rank. Collective over `world`; rank 0 writes.
void write_trace(const std::string& path, const Timeline& timeline, const ProcessGroup& world);

}  // namespace tessera
