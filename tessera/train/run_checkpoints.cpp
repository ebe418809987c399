#include "tessera/train/run_checkpoints.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/agree.h"
#include "tessera/checkpoint/load.h"
#include "tessera/comm/gather_text.h"
#include "tessera/config/hf_config_writer.h"
#include "tessera/config/load.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/config/paths.h"
#include "tessera/config/writer.h"
#include "tessera/layout/model_spec.h"
#include "tessera/parallel/initialize.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/published_weights.h"
#include "tessera/storage/retention.h"
#include "tessera/storage/tokenizer_files.h"
#include "tessera/train/load_weights.h"

namespace tessera {
namespace {

using Texts = std::map<std::string, std::string>;

constexpr const char* kRamp = "rampup_batch_size";

std::string list_of(const std::optional<std::vector<std::string>>& values) {
  std::string text;
  if (values) {
    for (const std::string& value : *values) text += (text.empty() ? "" : " ") + value;
  }
  return text;
}

// "seed 1 -> 2, split 1,0,0 -> 9,1,0"
std::string changes(const Texts& before, const Texts& now) {
  Texts all = before;
  all.insert(now.begin(), now.end());
  const auto text_in = [](const Texts& texts, const std::string& key) {
    const auto found = texts.find(key);
    return found == texts.end() ? "none" : found->second;
  };
  std::string text;
  for (const auto& [key, value] : all) {
    const std::string from = text_in(before, key), to = text_in(now, key);
    if (from != to) text += (text.empty() ? "" : ", ") + key + " " + from + " -> " + to;
  }
  return text;
}

// The keys of `fields` that start with `section`, without it.
Texts keys_of(const Texts& fields, const std::string& section) {
  Texts keys;
  for (auto at = fields.lower_bound(section); at != fields.end(); ++at) {
    if (!at->first.starts_with(section)) break;
    keys[at->first.substr(section.size())] = at->second;
  }
  return keys;
}

// What an update computes from its batch, but for the order in which the layout does it.
Texts mathematics(const Config& config) {
  const Texts fields = written_fields(config);
  Texts keys = keys_of(fields, "model.");
  for (const char* layout : {"use_attn_mask_compression", "use_eod_attn_mask_compression"}) {
    keys.erase(layout);
  }
  keys.merge(keys_of(fields, "optimizer."));
  keys["max_norm"] = fields.at("training.max_norm");
  return keys;
}

// The optimizers of this run's file, as far as a checkpoint of its own can name them.
OptimizerTable known_optimizers(const OptimizerConfig& optimizer) {
  if (!optimizer.kind || builtin_optimizers().find(optimizer.type)) return builtin_optimizers();
  return builtin_optimizers().with(*optimizer.kind);
}

std::string changed_mathematics(const Manifest& manifest, const Config& config,
                                const FamilyTable& families) {
  const ConfigResult before =
      load_config_text(manifest.config, kManifestName, ".",
                       {"checkpoint.load_path=''", "checkpoint.base_load_path=''"}, families,
                       known_optimizers(config.optimizer));
  return before.ok() ? changes(mathematics(before.config), mathematics(config)) : "";
}

std::vector<std::pair<int64_t, int64_t>> to_pairs(const std::vector<SampleRange>& ranges) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const SampleRange& range : ranges) pairs.emplace_back(range.place, range.count);
  return pairs;
}

std::vector<SampleRange> to_ranges(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  std::vector<SampleRange> ranges;
  for (const auto& [place, count] : pairs) ranges.push_back({place, count});
  return ranges;
}

bool is_folder_of_others(const std::filesystem::path& path) {
  return holds_adapters(path) || holds_published_weights(path);
}

bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const Config& config, const UpdateSequence& updates,
                               int64_t available_samples, ParallelModel& model,
                               Optimizer& optimizer, const DeviceMesh& mesh, FamilyTable families,
                               Generation generation)
    : config_(config),
      updates_(updates),
      available_samples_(available_samples),
      model_(model),
      optimizer_(optimizer),
      mesh_(mesh),
      families_(std::move(families)),
      generation_(std::move(generation)) {}

OptimizerState RunCheckpoints::optimizer_state() const {
  return {[&optimizer = optimizer_](size_t param) { return optimizer.state(param); },
          [&optimizer = optimizer_](const Moments::Read& read) { optimizer.encode_state(read); }};
}

RunPosition RunCheckpoints::position(const RunState& state) const {
  RunPosition position;
  position.step = state.next.step;
  position.samples = state.next.samples;
  position.updates = optimizer_.updates();
  position.effective_batch = state.last_batch;
  position.place = state.next.place;
  position.skipped_in_row = state.skipped_in_row;
  position.skipped = state.skipped;
  position.skipped_ranges = to_pairs(state.skipped_ranges);
  position.left_out = to_pairs(state.left_out);
  position.norms = state.norms;
  const Texts fields = written_fields(config_);
  const DataloaderConfig& loader = config_.train_dataset.dataloader;
  const DatasetConfig& data = loader.config;
  position.data = {
      {"files", list_of(data.data_path ? data.data_path : data.train_data_path)},
      {"split", data.split.value_or("")},
      {"shuffle", loader.shuffle ? "true" : "false"},
      {"samples", std::to_string(available_samples_)},
  };
  const Texts dataset = keys_of(fields, "train_dataset.dataloader.config.");
  for (const char* key : {"seed", "seq_length", "eod", "pad", "reset_position_ids",
                          "reset_attention_mask", "eod_mask_loss"}) {
    if (dataset.contains(key)) position.data[key] = dataset.at(key);
  }
  position.schedule = keys_of(fields, "lr_scheduler.");
  position.schedule["steps"] = fields.at("training.steps");
  if (config_.training.rampup_batch_size) {
    position.schedule[kRamp] = fields.at("training.rampup_batch_size");
  }
  position.random["seed"] = fields.at("training.seed");
  const ParallelDims& dims = mesh_.dims();
  position.layout["ranks"] = std::to_string(dims.world);
  for (const Axis axis :
       {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp, Axis::kEp}) {
    if (dims.size(axis) > 1) {
      position.layout[std::string(axis_name(axis))] = std::to_string(dims.size(axis));
    }
  }
  return position;
}

RunState RunCheckpoints::start() {
  if (config_.checkpoint.enable_save) {
    // Before it is looked for the newest checkpoint: an older start shall not add one.
    agree(mesh_[Axis::kWorld], [&] {
      if (mesh_.rank() == 0) take_over(save_directory(config_), generation_);
    });
  }
  const StartingPoint start = same_start();
  RunState state;
  state.next = updates_.at(0);
  state.last_batch = state.next.batch;
  const std::string& base = config_.checkpoint.base_load_path;
  const bool from_checkpoint =
      !start.path.empty() && (start.own || !is_folder_of_others(start.path));
  if (config_.checkpoint.save_trainable_only || from_checkpoint) {
    base_fingerprint_ = base_fingerprint(config_, mesh_);
  }
  if (!base.empty()) {
    load_base(model_, config_, base, mesh_);
    if (has_tokenizer(base)) tokenizer_ = base;
  }
  if (start.path.empty()) {
    base.empty() ? initialize(model_, config_) : initialize_adapters(model_, config_);
  } else if (!start.own && holds_adapters(start.path)) {
    load_hf_weights(model_, config_, start.path, WeightRows::kAdapters);
  } else if (!start.own && holds_published_weights(start.path)) {
    initialize_adapters(model_, config_);  // nothing in a model without them
    load_hf_weights(model_, config_, start.path, WeightRows::kBase);
    if (has_tokenizer(start.path)) tokenizer_ = start.path;
  } else {
    // Its own checkpoints: a run goes on as a whole.
    state = resume(start, start.own || !config_.checkpoint.no_load_optim);
  }
  saved_step_ = state.next.step;
  const CheckpointConfig& checkpoint = config_.checkpoint;
  if (!checkpoint.enable_save) return state;
  SaverOptions options;
  options.root = save_directory(config_);
  options.prefix = checkpoint.prefix;
  options.keep = checkpoint.save_max;
  options.async = checkpoint.async_save;
  options.copies = !checkpoint.remove_redundancy;
  if (!checkpoint.no_save_optim) options.optimizer = config_.optimizer.type;
  options.moment_dtype = config_.optimizer.moment_dtype;
  if (checkpoint.save_trainable_only) options.base = base_fingerprint_;
  options.config = to_yaml(config_);
  options.hf_config = hf_config_json(config_.model, config_.model.params_dtype,
                                     published_config(base.empty() ? start.path.string() : base));
  if (tokenizer_.empty()) tokenizer_ = tokenizer_of_data();
  options.tokenizer = tokenizer_;
  if (mesh_.rank() == 0) options.tokenizer_files = read_tokenizer_files(tokenizer_);
  options.kept = kept_;
  options.generation = generation_;
  options.patience =
      std::chrono::milliseconds(static_cast<int64_t>(1e3 * config_.training.timeout_seconds));
  saver_ =
      std::make_unique<CheckpointSaver>(std::move(options), model_.table, optimizer_state(), mesh_);
  return state;
}

// The folder of the tokenizer that makes the training data, or empty.
std::string RunCheckpoints::tokenizer_of_data() const {
  const DataloaderConfig& loader = config_.train_dataset.dataloader;
  if (loader.type != "HFDataLoader" || !loader.tokenizer) return "";
  const std::filesystem::path path = *loader.tokenizer;
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path.string() : path.parent_path().string();
}

// Rank 0 looks, so that all ranks do the same.
StartingPoint RunCheckpoints::same_start() const {
  const StartingPoint start =
      mesh_.rank() == 0 ? starting_point(config_, generation_) : StartingPoint{};
  const std::string kind = !start.own ? "-" : start.job.empty() ? "+" : "=";
  const std::string text = broadcast_text(0, mesh_[Axis::kWorld], kind + start.path.string());
  const char first = text.front();
  return {text.substr(1), first != '-', first == '=' ? generation_.job : ""};
}

// Where the update after `before` lies. A batch of one size that is another one now counts its
// steps anew by the place in the data; one that grows, or grew, keeps them.
RunState RunCheckpoints::go_on(const RunPosition& before, const std::string& from) const {
  RunState state;
  state.last_batch = before.effective_batch;
  state.skipped_in_row = before.skipped_in_row;
  state.skipped = before.skipped;
  state.skipped_ranges = to_ranges(before.skipped_ranges);
  state.left_out = to_ranges(before.left_out);
  state.norms = before.norms;
  const UpdateSequence updates = updates_.without(state.left_out);
  const int64_t counted = before.step * before.effective_batch;
  const int64_t place = before.place >= 0 ? before.place : counted;
  const BatchGrowth& growth = updates_.growth();
  const bool grew = before.schedule.contains(kRamp);
  if (growth.grows() || grew || before.effective_batch == growth.last) {
    // Of other data the place says nothing.
    const auto samples = before.data.find("samples");
    const bool same_data =
        samples != before.data.end() && samples->second == std::to_string(available_samples_);
    state.next = growth.grows() || grew || (before.place >= 0 && same_data)
                     ? updates.from(before.step, before.samples, place)
                     : updates.at(before.step);
    state.next.samples = before.samples;
    return state;
  }
  const int64_t step = counted / growth.last;
  if (mesh_.rank() == 0) {
    log_warning(detail::concat(from, ": ", counted, " samples at a batch of ",
                               before.effective_batch, "; with the batch of ", growth.last,
                               " the run goes on after step ", step, " (",
                               counted - step * growth.last, " samples are trained on again)"));
  }
  state.next = updates_.at(step);
  state.next.samples = before.samples;
  state.last_batch = growth.last;
  return state;
}

RunState RunCheckpoints::resume(const StartingPoint& start, bool with_optimizer) {
  LoadOptions options;
  options.path = start.path;
  options.job = start.job;
  options.marks_damaged = start.own && generation_.counted();
  options.balanced = config_.checkpoint.load_balanced;
  if (with_optimizer) options.optimizer = config_.optimizer.type;
  options.has_state = keeps_state(config_);
  options.base = base_fingerprint_;
  const LoadedCheckpoint loaded =
      load_checkpoint(options, model_spec(config_.model), model_.table, optimizer_state(), mesh_);
  tokenizer_ = has_tokenizer(loaded.folder) ? loaded.folder.string() : loaded.manifest.tokenizer;
  const std::string from = loaded.folder.string();
  const bool reports = mesh_.rank() == 0;
  if (options.optimizer.empty()) {
    if (reports) log_info("weights of " + from + "; step 0");
    RunState fresh;
    fresh.next = updates_.at(0);
    fresh.last_batch = fresh.next.batch;
    return fresh;
  }

  const RunPosition& before = loaded.manifest.position;
  resumed_ = loaded.folder;
  optimizer_.set_updates(before.updates);
  const RunState state = go_on(before, from);
  const int64_t step = state.next.step;
  const RunPosition now = position(state);
  if (reports) {
    const auto say = [&](const char* what, const std::string& differences) {
      if (!differences.empty()) log_warning(from + ": " + what + ": " + differences);
    };
    say("other data than it was trained on", changes(before.data, now.data));
    say("another schedule than before", changes(before.schedule, now.schedule));
    say("other random numbers than before", changes(before.random, now.random));
    say("another model or optimizer than before",
        changed_mathematics(loaded.manifest, config_, families_));
    if (loaded.manifest.moment_dtype != config_.optimizer.moment_dtype) {
      log_warning(from + ": moments are converted from " + loaded.manifest.moment_dtype + " to " +
                  config_.optimizer.moment_dtype);
    }
    log_info(detail::concat("resumed from ", from, ": step ", step, ", ", now.samples, " samples"));
    if (step >= config_.training.steps) {
      log_warning(detail::concat("training.steps = ", config_.training.steps,
                                 ": nothing is left to train"));
    }
  }
  if (same_folder(loaded.folder.parent_path(), save_directory(config_))) {
    kept_ = checkpoints_of_run(loaded.manifest);
  }
  return state;
}

void RunCheckpoints::save(const RunState& state) {
  saver_->save(position(state));
  saved_step_ = state.next.step;
}

void RunCheckpoints::after_step(const RunState& state, bool all_idle) {
  if (!saver_) return;
  if (saver_->pending() && all_idle) saver_->complete();
  const bool is_new = state.next.step != saved_step_;
  if (is_new && state.next.step % config_.checkpoint.save_interleaved_steps == 0) save(state);
}

void RunCheckpoints::finish(const RunState& state) {
  if (!saver_) return;
  if (state.next.step != saved_step_) save(state);
  complete();
}

std::optional<std::filesystem::path> RunCheckpoints::good() const {
  return saver_ && saver_->newest() ? saver_->newest() : resumed_;
}

RunState RunCheckpoints::go_back() {
  complete();
  RunState state = resume({good().value(), true, ""}, true);
  saved_step_ = state.next.step;
  return state;
}

void RunCheckpoints::complete() {
  if (saver_) saver_->complete();
}

}  // namespace tessera
