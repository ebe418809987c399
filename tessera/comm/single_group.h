#pragma once

#include <memory>
#include <string>

#include "tessera/comm/process_group.h"

namespace tessera {

/// A group of the one rank `world_rank`: every collective returns its input.
ProcessGroup single_group(int world_rank = 0, const std::string& name = "world",
                          const at::Device& device = at::kCPU);

/// The same without the value around it.
std::shared_ptr<ProcessGroup::Impl> single_impl(int world_rank, const std::string& name,
                                                const at::Device& device = at::kCPU);

}  // namespace tessera
