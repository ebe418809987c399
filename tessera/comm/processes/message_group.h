#pragma once

// Collectives between processes over messages. All groups of a world share one set of links; a
// split costs one small message exchange. Sums are made as among threads: by the rank that owns the
// part, member 0 first.

#include <memory>

#include "tessera/comm/process_group.h"
#include "tessera/comm/processes/message_exchange.h"

namespace tessera {

/// The group of all ranks over `transport`, as rank `rank` sees it. Several multi-phase operations
/// (all_reduce of much) in flight at once must be waited for in one order by all members. `page`
/// tells the launcher whom this rank waits for.
ProcessGroup message_group(std::unique_ptr<MessageTransport> transport, int rank, int size,
                           GroupOptions options, const std::string& name = "world",
                           std::shared_ptr<RankPage> page = nullptr);

}  // namespace tessera
