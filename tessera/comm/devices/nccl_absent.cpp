// A build without NCCL.

#include "tessera/base/error.h"
#include "tessera/comm/devices/nccl_group.h"

#ifndef TESSERA_WITH_NCCL

namespace tessera {

ProcessGroup nccl_group(std::shared_ptr<MeetingPoint>, const ProcessGroup&, const at::Device&) {
  throw ConfigError(
      "context.device_target: several ranks on CUDA devices need NCCL, which this build lacks");
}

}  // namespace tessera

#endif
