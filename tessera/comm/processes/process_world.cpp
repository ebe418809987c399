#include "tessera/comm/processes/process_world.h"

#include "tessera/base/error.h"
#include "tessera/comm/devices/nccl_group.h"
#include "tessera/comm/devices/rank_device.h"
#include "tessera/comm/memory.h"
#include "tessera/comm/processes/gloo_transport.h"
#include "tessera/comm/processes/message_group.h"
#include "tessera/comm/processes/shm_transport.h"
#include "tessera/comm/single_group.h"

namespace tessera {

ProcessGroup join_process_world(const ProcessWorldOptions& options) {
  TESSERA_CHECK(options.world >= 1 && options.rank >= 0 && options.rank < options.world, "rank ",
                options.rank, " of ", options.world);
  install_memory_counting();
  const HostFacts own = own_host_facts(cuda_devices());
  const auto start_on_device = [&](const std::vector<HostFacts>& facts) {
    const at::Device device = options.choose_device ? options.choose_device(facts) : at::kCPU;
    use_device(device);
    repeat_bitwise(device);
    return device;
  };
  if (options.world == 1) return single_group(0, "world", start_on_device({own}));
  const std::chrono::milliseconds timeout(static_cast<int64_t>(options.timeout_seconds * 1e3));
  MeetingOptions meeting;
  meeting.rank = options.rank;
  meeting.world = options.world;
  meeting.master_addr = options.master_addr;
  meeting.master_port = options.master_port;
  meeting.job = options.job;
  meeting.timeout = timeout;
  meeting.secret = options.secret;
  meeting.page = options.page;
  const auto point = std::make_shared<MeetingPoint>(meeting);
  std::vector<HostFacts> facts;
  for (const std::string& text : point->exchange("facts", to_text(own))) {
    facts.push_back(host_facts(text));
  }
  const at::Device device = start_on_device(facts);
  std::unique_ptr<MessageTransport> transport;
  if (options.shared_memory) transport = connect_shared_memory(point);
  if (!transport) transport = connect_gloo(point);
  ProcessGroup world = message_group(std::move(transport), options.rank, options.world, {timeout},
                                     "world", options.page);
  // Rank 0 may end, and the store with it, only when nobody reads from the store any more.
  world.barrier();
  return device.is_cpu() ? world : nccl_group(point, world, device);
}

}  // namespace tessera
