#include "tessera/train/run_checkpoints.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/tokenizer_files.h"
#include "tessera/comm/gather_text.h"
#include "tessera/config/hf_config_writer.h"
#include "tessera/config/load.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/config/paths.h"
#include "tessera/config/writer.h"
#include "tessera/layout/model_spec.h"
#include "tessera/parallel/initialize.h"
#include "tessera/train/load_weights.h"

namespace tessera {
namespace {

using Texts = std::map<std::string, std::string>;

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

// Whether the optimizer keeps a tensor of any parameter between its updates.
bool keeps_state(const Config& config) {
  return std::ranges::any_of(model_spec(config.model), [&](const ParamSpec& spec) {
    return !config.optimizer.kind->slots(config.optimizer, {spec.name, spec.role, spec.shape})
                .empty();
  });
}

std::string changed_mathematics(const Manifest& manifest, const Config& config,
                                const FamilyTable& families) {
  const ConfigResult before =
      load_config_text(manifest.config, kManifestName, ".", {"checkpoint.load_path=''"}, families,
                       known_optimizers(config.optimizer));
  return before.ok() ? changes(mathematics(before.config), mathematics(config)) : "";
}

bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const Config& config, const BatchPlan& plan,
                               int64_t available_samples, ParallelModel& model,
                               Optimizer& optimizer, const DeviceMesh& mesh, FamilyTable families)
    : config_(config),
      plan_(plan),
      available_samples_(available_samples),
      model_(model),
      optimizer_(optimizer),
      mesh_(mesh),
      families_(std::move(families)) {}

OptimizerState RunCheckpoints::optimizer_state() const {
  return {[&optimizer = optimizer_](size_t param) { return optimizer.state(param); },
          [&optimizer = optimizer_](const Moments::Read& read) { optimizer.encode_state(read); }};
}

int64_t RunCheckpoints::samples_at(int64_t step) const {
  return start_samples_ + (step - start_step_) * plan_.effective_batch;
}

RunPosition RunCheckpoints::position(int64_t step) const {
  RunPosition position;
  position.step = step;
  position.samples = samples_at(step);
  position.updates = optimizer_.updates();
  position.effective_batch = plan_.effective_batch;
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

int64_t RunCheckpoints::start() {
  const std::string& path = config_.checkpoint.load_path;
  int64_t step = 0;
  if (config_.checkpoint.resume == "auto" && own_is_there()) {
    step = resume(save_directory(config_), true);  // a run goes on as a whole
  } else if (path.empty()) {
    initialize(model_, config_);
  } else if (is_hf_folder(std::filesystem::path(path))) {
    load_hf_weights(model_, config_, path);
    if (has_tokenizer(path)) tokenizer_ = path;
  } else {
    step = resume(path, !config_.checkpoint.no_load_optim);
  }
  saved_step_ = step;
  const CheckpointConfig& checkpoint = config_.checkpoint;
  if (!checkpoint.enable_save) return step;
  SaverOptions options;
  options.root = save_directory(config_);
  options.prefix = checkpoint.prefix;
  options.keep = checkpoint.save_max;
  options.async = checkpoint.async_save;
  options.copies = !checkpoint.remove_redundancy;
  if (!checkpoint.no_save_optim) options.optimizer = config_.optimizer.type;
  options.moment_dtype = config_.optimizer.moment_dtype;
  options.config = to_yaml(config_);
  options.hf_config = hf_config_json(config_.model, config_.model.params_dtype);
  options.tokenizer = tokenizer_;
  options.kept = kept_;
  saver_ =
      std::make_unique<CheckpointSaver>(std::move(options), model_.table, optimizer_state(), mesh_);
  return step;
}

// Rank 0 looks, so that all ranks do the same.
bool RunCheckpoints::own_is_there() const {
  const std::filesystem::path root = save_directory(config_);
  bool found = false;
  if (mesh_.rank() == 0) {
    for (const int64_t step : list_iterations(root)) {
      std::error_code error;
      found |= std::filesystem::exists(root / iteration_name(step) / kManifestName, error);
    }
  }
  return broadcast_text(0, mesh_[Axis::kWorld], found ? "yes" : "no") == "yes";
}

int64_t RunCheckpoints::resume(const std::string& path, bool with_optimizer) {
  LoadOptions options;
  options.path = path;
  options.balanced = config_.checkpoint.load_balanced;
  if (with_optimizer) options.optimizer = config_.optimizer.type;
  options.has_state = keeps_state(config_);
  const LoadedCheckpoint loaded =
      load_checkpoint(options, model_spec(config_.model), model_.table, optimizer_state(), mesh_);
  tokenizer_ = loaded.manifest.tokenizer;
  const std::string from = loaded.folder.string();
  const bool reports = mesh_.rank() == 0;
  if (options.optimizer.empty()) {
    if (reports) log_info("weights of " + from + "; step 0");
    return 0;
  }

  const RunPosition& before = loaded.manifest.position;
  optimizer_.set_updates(before.updates);
  int64_t step = before.step;
  if (before.effective_batch != plan_.effective_batch) {
    // The place in the data, which is not the count of samples once some were read again.
    const int64_t place = before.step * before.effective_batch;
    step = place / plan_.effective_batch;
    if (reports) {
      log_warning(detail::concat(
          from, ": ", place, " samples at a batch of ", before.effective_batch,
          "; with the batch of ", plan_.effective_batch, " the run goes on after step ", step, " (",
          place - step * plan_.effective_batch, " samples are trained on again)"));
    }
  }
  start_step_ = step;
  start_samples_ = before.samples;
  const RunPosition now = position(step);
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
    kept_ = loaded.manifest.superseded;  // it may have been ended before it removed these
    kept_.insert(kept_.end(), loaded.manifest.kept.begin(), loaded.manifest.kept.end());
  }
  return step;
}

void RunCheckpoints::save(int64_t step) {
  saver_->save(position(step));
  saved_step_ = step;
}

void RunCheckpoints::after_step(int64_t step, bool all_idle) {
  if (!saver_) return;
  if (saver_->pending() && all_idle) saver_->complete();
  if (step % config_.checkpoint.save_interleaved_steps == 0) save(step);
}

void RunCheckpoints::finish(int64_t step) {
  if (!saver_) return;
  if (step != saved_step_) save(step);
  complete();
}

void RunCheckpoints::complete() {
  if (saver_) saver_->complete();
}

}  // namespace tessera
