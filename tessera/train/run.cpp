#include "tessera/train/run.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
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

int64_t world_of(const RunOptions& options) {
  return options.worker ? options.worker->world : options.thread_ranks;
}

}  // namespace

int run_training(const Config& config, const RunOptions& options) {
  if (!options.worker) end_after_a_step_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, not a signal

  const std::shared_ptr<RankPage> page = options.worker ? RankPage::of_launcher() : nullptr;
  const ParallelDims dims = derive_dims(config, world_of(options));
  const BatchPlan plan = make_batch_plan(config, dims);
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
  if (config.training.eval_interval > 0) trainer_options.eval_sets = open_eval_sets(config);
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
    report.emplace(trainer.mesh(), trainer.pipeline(), trainer.update_use());
    if (page) page->begin(trainer.steps_done() + 1);
    const int signal = trainer.run();
    std::fputs(report->text(config).c_str(), stdout);
    if (signal != 0) stopped = signal;
    if (!options.trace.empty()) write_trace(options.trace, timeline, world);
  };
  run_world(config, options, page, rank_main, end_after_a_step_on_signals);
  if (stopped != 0) {
    if (writer)
      log_warning(detail::concat("ended by signal ", stopped.load(), " after a whole step"));
    return 128 + stopped;
  }
  return 0;
}

}  // namespace tessera
