#include "tessera/train/run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/devices/rank_device.h"
#include "tessera/comm/processes/process_world.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/launcher/hosts/host_facts.h"
#include "tessera/launcher/rank_page.h"
#include "tessera/rules/derive.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/run_report.h"
#include "tessera/train/trace.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

// A signal handler can reach nothing but a global; it is written here alone, and the trainer gets a
// pointer to it.
std::atomic<int> g_signal{0};

void on_signal(int signal) {
  if (g_signal.exchange(signal) != 0) std::_Exit(128 + signal);  // the second one does not wait
}

// From when there are steps to end: a process that still waits for its world dies at once.
void end_after_a_step_on_signals() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

int64_t first_rank(const RunOptions& options) { return options.worker ? options.worker->rank : 0; }

// Threads of one operator of one rank: OMP_NUM_THREADS, else `fair`, its part of the cores.
int threads_or(int fair) {
  if (const char* given = std::getenv("OMP_NUM_THREADS")) return std::max(1, std::atoi(given));
  return std::max(1, fair);
}

int64_t world_of(const RunOptions& options) {
  return options.worker ? options.worker->world : options.thread_ranks;
}

// `facts` are those of the hosts of all processes.
at::Device device_of_rank(const Config& config, const RunOptions& options,
                          const std::vector<HostFacts>& facts) {
  const RankDevice chosen =
      choose_device(config.context.device_target, facts, static_cast<int>(first_rank(options)),
                    static_cast<int>(options.thread_ranks));
  if (first_rank(options) == 0 && !chosen.choice.empty()) log_info(chosen.choice);
  return chosen.device;
}

}  // namespace

int run_training(const Config& config, const RunOptions& options) {
  if (!options.worker) end_after_a_step_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, not a signal

  const std::shared_ptr<RankPage> page = options.worker ? RankPage::of_launcher() : nullptr;
  const ParallelDims dims = derive_dims(config, world_of(options));
  const BatchPlan plan = make_batch_plan(config.training, dims);
  if (page) page->set_work(RankWork::kIndexes);
  const auto source = open_training_data(config);
  const DataSupply supply = data_supply(source->size(), batch_growth(config.training, plan),
                                        config.training.steps, config.train_dataset.drop_remainder);
  std::optional<MetricsWriter> writer;
  if (first_rank(options) == 0) {
    if (!supply.warning().empty()) log_warning(supply.warning());
    if (!options.trace.empty()) check_trace_file(options.trace);
  }

  TrainerOptions trainer_options;
  trainer_options.source = source;
  trainer_options.stop_signal = &g_signal;
  trainer_options.faults = options.faults;
  if (options.worker) {
    trainer_options.generation = {options.worker->job_id, options.worker->generation};
  }
  std::atomic<int> stopped{0};
  const auto rank_main = [&](const ProcessGroup& world) {
    Timeline timeline;
    TrainerOptions own = trainer_options;
    if (!options.trace.empty()) own.timeline = &timeline;
    std::optional<RunReport> report;
    own.on_step = [&](const StepMetrics& metrics, const ParamTable&, const DeviceMesh& mesh) {
      if (page) page->set_step(metrics.step + 1);
      report->add(metrics);
      if (mesh.rank() == 0) writer->write(metrics);
    };
    own.page = page;
    own.on_go_back = [&](int64_t samples, int64_t steps) {
      if (page) page->set_step(steps + 1);
      if (world.rank() == 0) writer.emplace(config, samples);
    };
    Trainer trainer(config, world, std::move(own));
    if (world.rank() == 0) writer.emplace(config, trainer.samples(), options.restarts);
    report.emplace(trainer.mesh(), trainer.pipeline());
    if (page) page->begin(trainer.steps_done() + 1);
    const int signal = trainer.run();
    std::fputs(report->text(config).c_str(), stdout);
    if (signal != 0) stopped = signal;
    if (!options.trace.empty()) write_trace(options.trace, timeline, world);
  };
  if (options.worker) {
    const WorkerEnvironment& worker = *options.worker;
    ProcessWorldOptions world;
    world.rank = static_cast<int>(worker.rank);
    world.world = static_cast<int>(worker.world);
    world.master_addr = worker.master_addr;
    world.master_port = worker.master_port;
    world.job = worker.job_id;
    if (worker.generation > 0) world.job += ".start" + std::to_string(worker.generation);
    world.timeout_seconds = config.training.timeout_seconds;
    world.secret = options.secret;
    world.page = page;
    world.choose_device = [&](const std::vector<HostFacts>& facts) {
      const at::Device device = device_of_rank(config, options, facts);
      if (device.is_cpu()) at::set_num_threads(threads_or(fair_threads(facts, world.rank)));
      return device;
    };
    if (page) page->set_work(RankWork::kMeets);
    const ProcessGroup joined = join_process_world(world);
    end_after_a_step_on_signals();
    rank_main(joined);
  } else {
    const HostFacts host = own_host_facts(cuda_devices());
    const at::Device device = device_of_rank(config, options, {host});
    if (device.is_cpu()) {
      RankOptions ranks;
      ranks.threads_per_rank =
          threads_or(usable_cores(host) / static_cast<int>(options.thread_ranks));
      ranks.group.timeout =
          std::chrono::milliseconds(static_cast<int64_t>(1e3 * config.training.timeout_seconds));
      run_ranks(static_cast<int>(options.thread_ranks), rank_main, ranks);
    } else {
      ProcessWorldOptions alone;
      alone.choose_device = [&](const std::vector<HostFacts>&) { return device; };
      rank_main(join_process_world(alone));
    }
  }
  if (stopped != 0) {
    if (writer)
      log_warning(detail::concat("ended by signal ", stopped.load(), " after a whole step"));
    return 128 + stopped;
  }
  return 0;
}

}  // namespace tessera
